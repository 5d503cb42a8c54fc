"""The models, one file each; ``MODELS`` lists them by name."""

from rmtsym.models.attention import ATTENTION
from rmtsym.models.base import Example, Model
from rmtsym.models.heads import HEADS
from rmtsym.models.regression import REGRESSION
from rmtsym.models.softmax import SOFTMAX

MODELS = {model.name: model for model in (ATTENTION, REGRESSION, HEADS, SOFTMAX)}

__all__ = ["MODELS", "Example", "Model"]
