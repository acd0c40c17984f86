"""JupyterLab, driven through its own application object: no menus, no sleeps, no settings of the user's."""

import json
import os
import secrets
import socket
import time
import urllib.request
from pathlib import Path

import nbformat

from tests.browser import servers

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
QUIET = {  # no toast over the page, and a theme set before the page loads: a switch while Lab starts races its splash
    "notification": {"fetchNews": "false", "checkForUpdates": False},
    "themes": {"theme": "JupyterLab Light"},
}
OPEN = """async (path) => {
  const app = window.jupyterapp;
  await app.restored;
  const notebook = await app.commands.execute('docmanager:open', { path, factory: 'Notebook' });
  await notebook.context.ready;
  await notebook.revealed;
  await notebook.sessionContext.ready;
  app.shell.activateById(notebook.id);
}"""
CURRENT = "window.jupyterapp.shell.currentWidget"
KERNEL = f"{CURRENT}?.sessionContext?.session?.kernel"
IDLE = f"() => {KERNEL}?.connectionStatus === 'connected' && {KERNEL}.status === 'idle'"
CODE = f"{CURRENT}.content.widgets.filter(cell => cell.model.type === 'code')"
RAN = f"() => {CODE}.every(cell => cell.model.executionCount !== null)"
ERRORS = f"""() => {CODE}.flatMap(cell => cell.model.outputs.toJSON())
  .filter(output => output.output_type === 'error').map(output => output.ename + ': ' + output.evalue)"""
# Runs code beside the cells and answers what it printed.
EXECUTE = f"""async (code) => {{
  const asked = {KERNEL}.requestExecute({{ code, store_history: false }});
  let said = '';
  asked.onIOPub = (message) => {{
    if (message.header.msg_type === 'stream') said += message.content.text;
    if (message.header.msg_type === 'error') said += message.content.ename + ': ' + message.content.evalue;
  }};
  await asked.done;
  return said;
}}"""


class Lab:
    """A server with every folder of its own."""

    def __init__(self, base: Path) -> None:
        self.base, self.root = base, base / "root"
        self.root.mkdir()
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        for plugin, settings in QUIET.items():
            file = base / "settings" / "@jupyterlab" / "apputils-extension" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings))

    def start(self) -> None:
        """Return when it answers."""
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.url.rsplit(":", 1)[1],
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.root,
            "ServerApp.terminals_enabled": False,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "LabApp.news_url": None,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "LabApp.extension_manager": "readonly",
        }
        given = ["--no-browser", "--allow-root", *(f"--{name}={value}" for name, value in options.items())]
        folders = {name: str(self.base / folder) for name, folder in FOLDERS.items()}
        own = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.log = (self.base / "lab.log").open("wb")
        environment = os.environ | folders | own
        self.server = servers.start("jupyterlab", *given, env=environment, stdout=self.log, stderr=self.log)
        status = urllib.request.Request(f"{self.url}/api/status", headers={"Authorization": f"token {self.token}"})
        deadline = time.monotonic() + 60
        while True:
            assert self.server.poll() is None and time.monotonic() < deadline, (self.base / "lab.log").read_text()
            try:
                with urllib.request.urlopen(status, timeout=2):
                    return
            except OSError:
                time.sleep(0.05)

    def stop(self, patience: float = servers.PATIENCE) -> None:
        """End the server and its kernels."""
        servers.stop(self.server, patience)
        self.log.close()

    def write(self, name: str, *cells: str) -> str:
        """A notebook with those code cells, never run."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, self.root / name)
        return name

    def open(self, page, name: str) -> "Notebook":
        """A notebook in a page, with its kernel ready."""
        page.goto(f"{self.url}/lab/workspaces/{secrets.token_hex(4)}?token={self.token}&reset")
        page.wait_for_function("() => window.jupyterapp?.shell")
        page.evaluate(OPEN, name)
        page.wait_for_function(IDLE)
        return Notebook(page)


class Notebook:
    """An open notebook: run its cells, run Python beside them, and ask what came of it."""

    def __init__(self, page) -> None:
        self.page = page

    def run_all(self) -> None:
        """Run every cell; an error in one fails the test."""
        self._command("notebook:run-all-cells")
        self.page.wait_for_function(RAN)
        self.page.wait_for_function(IDLE)
        assert self.page.evaluate(ERRORS) == []

    def run_cell(self, index: int, wait: bool = True) -> None:
        """Run one cell."""
        self.page.evaluate(
            f"(i) => {{ const notebook = {CURRENT}.content; notebook.deselectAll(); notebook.activeCellIndex = i; }}",
            index,
        )
        self._command("notebook:run-cell", wait)
        if wait:
            self.page.wait_for_function(IDLE)
            assert self.page.evaluate(ERRORS) == []

    def clear(self) -> None:
        """Take every output away, and the views in them."""
        self._command("notebook:clear-all-cell-outputs")

    def python(self, code: str) -> str:
        """What that code prints."""
        return self.page.evaluate(EXECUTE, code).strip()

    def until(self, expression: str, wanted: str, seconds: float = 10) -> None:
        """Ask until it is so: a page sends its changes one at a time, as the kernel comes to them."""
        deadline = time.monotonic() + seconds
        while (said := self.python(f"print({expression})")) != wanted:
            assert time.monotonic() < deadline, f"{expression} is {said}, not {wanted}"
            self.page.wait_for_timeout(30)

    def restart(self) -> None:
        """A new kernel."""
        self.page.evaluate(f"async () => {{ await {KERNEL}.restart(); }}")
        self.page.wait_for_function(IDLE)

    def theme(self, name: str) -> None:
        """Switch the theme of the running Lab."""
        self.page.evaluate(
            "async (theme) => { await window.jupyterapp.commands.execute('apputils:change-theme', { theme }); }",
            f"JupyterLab {name}",
        )
        light = "true" if name == "Light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")  # a switch meanwhile trips over it

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.page.evaluate(f"() => {CURRENT}.content.widgets.length")

    def _command(self, name: str, wait: bool = True) -> None:
        call = f"window.jupyterapp.commands.execute('{name}')"
        self.page.evaluate(f"async () => {{ await {call}; }}" if wait else f"() => {{ {call}; }}")
