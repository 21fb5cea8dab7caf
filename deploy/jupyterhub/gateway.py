"""JupyterHub settings that give each server a short-lived token for a LiteLLM gateway.

The gateway holds the vendors' keys. The hub asks it, at every start of a server, for a virtual key
of that one person, with a budget and an end, and takes the key back when the server stops.
"""

# ruff: noqa: F821
import json
import os

from tornado.httpclient import AsyncHTTPClient

c = get_config()

GATEWAY = os.environ["LITELLM_URL"].rstrip("/")
MASTER_KEY = os.environ["LITELLM_MASTER_KEY"]
HOURS = os.environ.get("TOKEN_HOURS", "12")
DOLLARS_A_DAY = float(os.environ.get("DOLLARS_A_DAY", "1"))


async def _gateway(route, body):
    answer = await AsyncHTTPClient().fetch(
        f"{GATEWAY}{route}",
        method="POST",
        headers={"Authorization": f"Bearer {MASTER_KEY}", "Content-Type": "application/json"},
        body=json.dumps(body),
    )
    return json.loads(answer.body)


def _alias(spawner):
    return f"hub-{spawner.user.name}-{spawner.name or 'default'}"


async def take_token(spawner):
    """Before a server starts: a fresh token of its person."""
    await give_token_back(spawner)
    made = await _gateway(
        "/key/generate",
        {
            "user_id": spawner.user.name,
            "key_alias": _alias(spawner),
            "duration": f"{HOURS}h",
            "max_budget": DOLLARS_A_DAY,
            "budget_duration": "24h",
            "max_parallel_requests": 4,
        },
    )
    spawner.environment = {**spawner.environment, "OPENAI_COMPATIBLE_API_KEY": made["key"]}


async def give_token_back(spawner):
    """When a server has stopped: its token is worth nothing any more."""
    try:
        await _gateway("/key/delete", {"key_aliases": [_alias(spawner)]})
    except Exception as error:  # there was none, or the gateway is away
        spawner.log.info("no token of %s taken back: %s", _alias(spawner), type(error).__name__)


c.Spawner.pre_spawn_hook = take_token
c.Spawner.post_stop_hook = give_token_back
c.Spawner.args = [
    *(c.Spawner.args if isinstance(c.Spawner.args, list) else ()),
    f"--NbinlineApp.compatible_base_url={GATEWAY}/v1",
    "--NbinlineApp.default_connection=openai_compatible",
    f"--NbinlineApp.compatible_models={os.environ.get('MODEL', 'course-model')}",
]
