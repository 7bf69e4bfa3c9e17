"""The package under whose name the stand-in for SGLang is started."""
