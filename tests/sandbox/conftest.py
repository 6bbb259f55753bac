"""An embedded Kubernetes API at a hand-moved time, and the real client on it."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from kubernetes_asyncio import client, config

from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from tests.sandbox.generated import Generated
from tests.sandbox.hand_clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def kubernetes(clock: HandClock) -> AsyncIterator[EmbeddedKubernetes]:
    async with EmbeddedKubernetes(clock) as server:
        yield server


@pytest.fixture
def store(kubernetes: EmbeddedKubernetes) -> Store:
    return kubernetes.store


@pytest.fixture
async def api(kubernetes: EmbeddedKubernetes) -> AsyncIterator[client.ApiClient]:
    settings = client.Configuration()
    await config.load_kube_config_from_dict(kubernetes.kubeconfig("tester"), client_configuration=settings)
    async with client.ApiClient(settings) as opened, asyncio.timeout(20):
        opened.user_agent = "pytest"
        yield opened


@pytest.fixture
def core(api: client.ApiClient) -> Generated:
    return cast("Generated", client.CoreV1Api(api))


@pytest.fixture
def apps(api: client.ApiClient) -> Generated:
    return cast("Generated", client.AppsV1Api(api))


@pytest.fixture
def custom(api: client.ApiClient) -> Generated:
    return cast("Generated", client.CustomObjectsApi(api))


@pytest.fixture
def apis(api: client.ApiClient) -> Generated:
    return cast("Generated", client.ApisApi(api))


@pytest.fixture
def version(api: client.ApiClient) -> Generated:
    return cast("Generated", client.VersionApi(api))
