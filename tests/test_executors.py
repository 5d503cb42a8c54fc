"""Dask: separate worker processes give the same bits; a worker that dies is a clear error."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from rmtsym.errors import SimulationError
from rmtsym.matrices import Entrywise, Gaussian, Identity, Trace, dimensions
from rmtsym.simulation import simulate

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

n, p = dimensions("n p")
Z = Gaussian("Z", p, n)
TRACE = Trace((Z.T * Z / n + Identity(n)).inverse()) / n


def die(x):
    os._exit(1)


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        )
        with cluster, distributed.Client(cluster) as found:
            yield found


def test_dask_gives_the_same_bits(client, tmp_path):
    arguments = {"sizes": {n: 60, p: 40}, "repetitions": 20, "seed": 4}
    serial = simulate(TRACE, **arguments)
    remote = simulate(TRACE, executor=client.get_executor(), **arguments)
    assert np.array_equal(serial.samples, remote.samples)


def test_a_dying_dask_worker_is_a_clear_error(client):
    expression = Trace(Entrywise(die, Z.T * Z))
    with pytest.raises(SimulationError, match="after 0 of 2"):
        simulate(
            expression, sizes={n: 10, p: 5}, repetitions=2, executor=client.get_executor(retries=0)
        )
