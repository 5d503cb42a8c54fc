"""The models, one file each; ``MODELS`` lists them by name."""

from rmtsym.models.attention import ATTENTION
from rmtsym.models.base import Example, Model
from rmtsym.models.regression import REGRESSION

MODELS = {model.name: model for model in (ATTENTION, REGRESSION)}

__all__ = ["MODELS", "Example", "Model"]
