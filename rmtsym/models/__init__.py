"""The models, one file each; ``MODELS`` lists them by name."""

from rmtsym.models.attention import ATTENTION
from rmtsym.models.base import Example, Model
from rmtsym.models.conjugate_kernel import CONJUGATE_KERNEL
from rmtsym.models.free_sum import FREE_SUM
from rmtsym.models.generalization import ATTENTION_TEST, REGRESSION_TEST
from rmtsym.models.heads import HEADS
from rmtsym.models.information_plus_noise import INFORMATION_PLUS_NOISE
from rmtsym.models.inner_product_kernel import INNER_PRODUCT_KERNEL
from rmtsym.models.marchenko_pastur import ANISOTROPIC, MARCHENKO_PASTUR
from rmtsym.models.random_features import RANDOM_FEATURES_TEST, RANDOM_FEATURES_TRAINING
from rmtsym.models.regression import REGRESSION
from rmtsym.models.ridge import RIDGE_BIAS, RIDGE_VARIANCE
from rmtsym.models.semicircle import SEMICIRCLE
from rmtsym.models.softmax import SOFTMAX
from rmtsym.models.targets import MIXTURE, TARGET
from rmtsym.models.wishart_product import WISHART_PRODUCT

MODELS = {
    model.name: model
    for model in (
        ATTENTION,
        REGRESSION,
        HEADS,
        SOFTMAX,
        TARGET,
        MIXTURE,
        ATTENTION_TEST,
        REGRESSION_TEST,
        MARCHENKO_PASTUR,
        ANISOTROPIC,
        SEMICIRCLE,
        FREE_SUM,
        WISHART_PRODUCT,
        INFORMATION_PLUS_NOISE,
        CONJUGATE_KERNEL,
        INNER_PRODUCT_KERNEL,
        RANDOM_FEATURES_TRAINING,
        RANDOM_FEATURES_TEST,
        RIDGE_BIAS,
        RIDGE_VARIANCE,
    )
}

__all__ = ["MODELS", "Example", "Model"]
