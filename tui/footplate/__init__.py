"""footplate: a terminal console for PyTorch training on Azure Machine Learning and on this machine."""

__version__ = "0.1.0"
