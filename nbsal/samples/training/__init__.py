"""Programs that train and judge the embedded models; not part of the installed package."""
