"""The hub of the tests: the course of ``deploy`` on free ports, below a base URL."""

# ruff: noqa: F821
import json
import os
from pathlib import Path

import jupyterhub

c = get_config()
HERE = Path(os.environ["HUB_CONFIG_DIR"])
STATE = Path(os.environ["HUB_STATE"])
PORTS = json.loads(os.environ["HUB_PORTS"])

load_subconfig(str(HERE.parents[1] / "deploy" / "jupyterhub" / "course.py"))

c.JupyterHub.bind_url = f"http://127.0.0.1:{PORTS[0]}/campus/"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{PORTS[1]}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{PORTS[2]}"
c.ConfigurableHTTPProxy.command = [
    "node",
    str(HERE / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"),
]
c.ConfigurableHTTPProxy.pid_file = str(STATE / "proxy.pid")
c.JupyterHub.db_url = f"sqlite:///{STATE / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(STATE / "cookie_secret")
c.JupyterHub.last_activity_interval = 1
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ["HUB_PASSWORD"]
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(STATE / "home" / "{username}")
c.Spawner.start_timeout = 60
c.Spawner.args = [*c.Spawner.args, "--allow-root"]
c.Spawner.environment = {
    "JUPYTER_CONFIG_PATH": str(STATE / "config"),
    "JUPYTERHUB_ACTIVITY_INTERVAL": "1",
    **{
        name: os.environ[name]
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PYTHONPATH")
        if name in os.environ
    },
}
c.JupyterHub.services = [
    *c.JupyterHub.services,
    {"name": "tests", "api_token": os.environ["HUB_TOKEN"]},
]
c.JupyterHub.load_roles = [
    *c.JupyterHub.load_roles,
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens"]},
]
assert jupyterhub.version_info >= (5, 0)
