"""The namespace `tfjit.distributions`."""

from __future__ import annotations

from tfjit.client.probability.beta import Beta, Dirichlet
from tfjit.client.probability.counts import DirichletMultinomial, Multinomial
from tfjit.client.probability.discrete import Bernoulli, Categorical
from tfjit.client.probability.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from tfjit.client.probability.divergence import RegisterKL, kl_divergence
from tfjit.client.probability.gamma import Exponential, Gamma
from tfjit.client.probability.location_scale import Laplace, Normal, Uniform
from tfjit.client.probability.student_t import StudentT

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Multinomial",
    "Normal",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
]


def __dir__() -> list[str]:
    return __all__
