"""Programs that train and evaluate the embedded models; not part of the installed package."""
