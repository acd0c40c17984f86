"""The words of the made-up world of `demo/notes`: names and values by kind, and what clutters its notes."""

PERSONS = """
    Mara Jonas Nina Tomas Aisha Peter Lena Victor Priya Samuel Ingrid Hassan Clara Mateo Sofia Daniel Yuki Omar Greta
    Felix Amara Lucas Elif Hugo Zoe Ivan Carmen Noah Leila Oscar Ruth Kenji Paula Stefan Maya Anton Rosa Emil Fatima
    Jakob Selma Ravi Helen Marco Olga Simon Tara Bruno Dalia Erik Judith Karim Alma Nils Petra Diego Wanda Theo Naomi
    Axel Bettina Cyril Dora Edgar Farah Gustav Hanna Igor Jasmin Klaus Lydia Nora Otto Pavel Quentin Rita Sven Tilda
    Ursula Vera Walter Xenia Yusuf Zara Arthur Bianca Conrad Doris Esther Frank Gloria Harald Irene Joel Kira Leon
    Martha Norman Odile Philip Renate Silvio Tessa Ulrich Viola Wilma Yara Albert Beatrice Cecil Deborah Edith Florian
    Gemma Henry Isabel Julian Katrin Louis Monica Nadia Oliver Pilar Robin Sandra Tobias Una Vincent Wendy Andrea Boris
    Celine Dominic Eva Fiona George Aron Berta Carla Damian Elsa Fabian Gerda Hilda Imre Jana Kurt Linus Mirko Nele
    Olaf Pia Ralf Sonja Timo Uwe Valerie Willem Yvonne Zeno
"""
PLACES = """
    boathouse cellar attic greenhouse garage archive kitchen library studio chapel barn office laundry gallery pantry
    lounge shed basement balcony stable clinic nursery theatre pavilion museum bakery cabin lighthouse mill annex gym
    canteen courtyard lab vault depot warehouse foyer loft hangar tower pool sauna storeroom boardroom classroom crypt
    observatory conservatory dormitory armoury refectory stockroom washroom cloakroom ballroom
"""
EVENTS = """
    meeting concert auction rehearsal seminar picnic wedding lecture interview inspection festival tournament breakfast
    dinner webinar ceremony hearing screening exhibition regatta parade briefing market funeral quiz debate audit
    excursion graduation reunion demonstration barbecue training tasting premiere marathon vigil sermon workshop gala
    raffle recital hackathon bazaar symposium banquet
"""
ITEMS = """
    projector ladder drill kayak tent camera piano printer generator lawnmower guitar microscope telescope blender sofa
    bicycle lantern toaster keyboard stapler heater fridge carpet mirror clock vase trumpet saddle compass radio violin
    wheelbarrow anvil kettle scanner helmet suitcase typewriter globe chessboard microphone tripod barometer hammock
    drum oven aquarium statue bench curtain mattress wardrobe lamp screen router sledge canoe easel trolley cradle
"""
CITIES = """
    Lisbon Vienna Oslo Prague Dublin Athens Cairo Lima Boston Kyoto Geneva Hamburg Zurich Milan Porto Turin Bergen
    Seville Krakow Riga Tallinn Ghent Basel Leeds York Glasgow Cork Nantes Lyon Nice Dresden Bremen Leipzig Graz Verona
    Naples Malmo Aarhus Tampere Vilnius Zagreb Split Budapest Bucharest Ankara Izmir Tunis Nairobi Accra Lagos Dakar
    Quito Bogota Havana Toronto Denver Seattle Austin Perth Sydney Osaka Seoul Hanoi Delhi Mumbai Chennai Lahore Trieste
    Antwerp Utrecht Cologne Rouen Granada Bologna Salzburg Gdansk
"""
FOODS = """
    peanuts shellfish walnuts strawberries milk eggs wheat mustard celery sesame tomatoes garlic mushrooms almonds kiwi
    honey cinnamon soy lentils oysters onions pepper cheese cashews corn coconut peaches bananas rye mango shrimp apples
    spinach raisins lupins squid ginger beetroot
"""
DISHES = """
    lasagne salad curry soup bread cake pie stew risotto casserole omelette pudding hummus sushi quiche chili pasta
    gnocchi paella ratatouille crumble goulash focaccia trifle strudel moussaka polenta chowder tiramisu pizza gazpacho
    couscous meatloaf
"""
JOBS = """
    nurse baker plumber lawyer carpenter teacher pilot dentist gardener butcher tailor translator librarian journalist
    pharmacist surgeon farmer firefighter photographer barber chemist sailor referee beekeeper judge painter blacksmith
    cook potter midwife geologist mechanic florist detective glazier roofer weaver cobbler conductor porter
"""
PET_NAMES = """
    Biscuit Shadow Luna Pixel Waffle Mochi Bandit Olive Pickle Rusty Smokey Ziggy Cleo Nugget Ollie Peanut Tango Marble
    Domino Gizmo Hazel Juniper Kiki Loki Noodle Pebble Clover Bongo Cosmo Fudge Truffle Widget
"""
COLOURS = """
    red blue green yellow purple orange grey white black pink turquoise beige brown violet crimson ivory navy teal
    ochre lilac
"""
DOCUMENTS = """
    report budget contract newsletter proposal brochure manual invoice survey catalogue script essay petition leaflet
    schedule roster thesis grant memo blueprint agenda itinerary questionnaire dossier speech poster transcript almanac
    prospectus glossary
"""
LANGUAGES = """
    French Turkish Polish Arabic Dutch Greek Swedish Hindi Korean Italian Danish Finnish Hebrew Spanish Welsh Czech
    Basque Swahili Persian Latvian
"""
INSTRUMENTS = """
    cello flute harp oboe banjo clarinet accordion tuba saxophone mandolin organ bassoon ukulele viola trombone lute
    zither cornet
"""
MONTHS = "January February March April May June July August September October November December".split()
POOLS = {
    "person": PERSONS.split(),
    "place": PLACES.split(),
    "event": EVENTS.split(),
    "item": ITEMS.split(),
    "city": CITIES.split(),
    "food": FOODS.split(),
    "dish": DISHES.split(),
    "job": JOBS.split(),
    "pet": "cat dog parrot rabbit horse hamster goat tortoise ferret canary donkey goose pony lizard hen".split(),
    "petname": PET_NAMES.split(),
    "colour": COLOURS.split(),
    "document": DOCUMENTS.split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "language": LANGUAGES.split(),
    "instrument": INSTRUMENTS.split(),
    "number": [str(number) for number in range(101, 999, 4)],
    "price": [str(number) for number in range(31, 100)],
    "platform": [str(number) for number in range(1, 25)],
    "time": [f"{hour}:{minute}" for hour in range(7, 22) for minute in ("00", "15", "30", "45")],
    "date": [f"{month} {day}" for day in range(1, 29) for month in MONTHS],
}

CHATTER = [
    "Thanks everyone, that was a lovely evening.",
    "Sorry for the late reply, my phone was flat.",
    "It will rain all week, so take a coat.",
    "Could somebody water the plants while I am away?",
    "The heating is broken again.",
    "I will be late, please start without me.",
    "Good news, the roof is finally fixed.",
    "Has anyone seen my glasses?",
    "The neighbours complained about the noise.",
    "We need more coffee and paper towels.",
    "Please lock the front door at night.",
    "What a match last night!",
    "The lift is out of order until further notice.",
    "I am working from home today.",
    "Let me know if you have any questions.",
    "Nobody has heard anything yet.",
    "The post came early today.",
    "My sister says hello to all of you.",
    "It was cold, but the view was worth it.",
    "Remember to switch off the lights.",
    "They still have not answered my letter.",
    "The garden looks wonderful this spring.",
    "Traffic was terrible, as always.",
    "We are out of printer paper.",
]
SENDERS = [
    "",
    "",
    "",
    "{person}: ",
    "{person}: ",
    "From {person}, {day}: ",
    "Email from {person}: ",
    "{person} wrote on {day}: ",
    "Minutes, {day}: ",
    "Message at {time}: ",
    "Reminder: ",
    "By the way: ",
]
OPENINGS = [
    "",
    "",
    "",
    "",
    "Just so you know: ",
    "Quick update: ",
    "For the record: ",
    "Hello! ",
    "One more thing: ",
    "As agreed: ",
]
CLOSINGS = ["", "", "", "", "", " Thanks!", " See you soon.", " Please pass it on.", " Best wishes.", " That is all."]
