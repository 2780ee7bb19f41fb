#!/usr/bin/env python3
"""Checks the recipes that are no C++: their YAML, their units and crontabs, and what they run.

check_recipes.py COMMAND runs each command line of the recipes by the `redlatch` command that is named,
on a server of its own. The programs in the command lines are replaced by a stub.
"""
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import yaml
except ImportError:
    sys.exit("python3's yaml is missing (Debian: python3-yaml)")

RECIPES = pathlib.Path(__file__).resolve().parent / "recipes"
REDLATCH = ""  # the command, from the command line
PATIENCE = 20  # seconds

# Says that it runs, and ends on SIGTERM, as the programs of the recipes do.
STUB = """#!/bin/sh
trap 'echo ends; [ -z "$!" ] || kill $!; exit 0' TERM
echo "runs $REDLATCH_TOKEN"
[ "$1" = --port ] || exit 0
sleep 60 & wait $!
"""

# The fields that the recipes may use: each is the parser of what stands there.
NAME, TEXT, COUNT = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", r".+", int
SECONDS = r"\d+s"
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME},
    "spec": {
        "replicas": COUNT, "selector": {"matchLabels": {"app": NAME}},
        "template": {
            "metadata": {"labels": {"app": NAME}},
            "spec": {
                "terminationGracePeriodSeconds": COUNT,
                "containers": [{
                    "name": NAME, "image": TEXT, "command": [TEXT],
                    "env": [{"name": r"[A-Z_]+", "valueFrom": {
                        "fieldRef?": {"fieldPath": r"status\.podIP"},
                        "secretKeyRef?": {"name": NAME, "key": NAME}}}],
                }]}}}}
COMPOSE = {
    "services": {
        "redis": {
            "image": TEXT, "command": [TEXT], "volumes": [TEXT],
            "healthcheck": {"test": [TEXT], "interval": SECONDS, "retries": COUNT}},
        "encoder": {
            "image": TEXT, "deploy": {"replicas": COUNT}, "command": [TEXT],
            "environment": {"REDLATCH_URL": TEXT},
            "depends_on": {"redis": {"condition": "service_healthy"}},
            "init": bool, "stop_grace_period": SECONDS, "restart": "unless-stopped"}},
    "volumes": {"redis-data": None}}


def faults(found, allowed, where=""):
    """What in `found` is not as the fields of `allowed` say; a field whose name ends in ? may be absent."""
    if isinstance(allowed, dict):
        if not isinstance(found, dict):
            return [f"{where} is no mapping"]
        known = {key.rstrip("?"): value for key, value in allowed.items()}
        problems = [f"{where}.{key} is not known" for key in found if key not in known]
        problems += [f"{where}.{key} is missing" for key in allowed if not key.endswith("?") and key not in found]
        for key in known.keys() & found.keys():
            problems += faults(found[key], known[key], f"{where}.{key}")
        return problems
    if isinstance(allowed, list):
        if not isinstance(found, list):
            return [f"{where} is no list"]
        return [problem for i, item in enumerate(found) for problem in faults(item, allowed[0], f"{where}[{i}]")]
    if isinstance(allowed, str):
        right = isinstance(found, str) and re.fullmatch(allowed, found)
    else:
        right = found is None if allowed is None else type(found) is allowed
    return [] if right else [f"{where} is {found!r}"]


def blocks(page, language):
    """The blocks of a recipe in that language."""
    text = (RECIPES / f"{page}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def units():
    """The text of each unit of the recipe for systemd, by its name."""
    return {re.match(r"# /etc/systemd/system/(\S+)\n", unit)[1]: unit for unit in blocks("systemd", "ini")}


class Run(subprocess.Popen):
    """A command line of a recipe, whose output can be awaited."""

    def __init__(self, arguments, directory):
        environment = dict(os.environ, PATH=f"{directory}/bin:{os.environ['PATH']}", REDLATCH_URL=f"embedded:{directory}/s")
        super().__init__(arguments, stdout=subprocess.PIPE, cwd=directory, env=environment, bufsize=0)
        self.output = b""

    def await_output(self, pattern):
        """Returns the first match in what the command has printed or prints soon; else None."""
        end = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.output)):
            ready, _, _ = select.select([self.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                return None
            self.output += chunk
        return match

    def end(self):
        if self.poll() is None:
            self.terminate()
            self.wait(PATIENCE)
        self.stdout.close()


class RecipeTest(unittest.TestCase):
    def setUp(self):
        # A short path, because the length of a socket's path is limited.
        self.directory = tempfile.mkdtemp(prefix="redlatch-recipe.", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(self.shut_down)
        os.mkdir(f"{self.directory}/bin")
        os.symlink(REDLATCH, f"{self.directory}/bin/redlatch")

    def shut_down(self):
        subprocess.run(["redis-cli", "-s", f"{self.directory}/s/redis.sock", "SHUTDOWN", "NOSAVE"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def start(self, arguments):
        """Starts a command line of a recipe, whose program is then the stub."""
        arguments = [pathlib.Path(arguments[0]).name, *arguments[1:]]
        self.assertEqual(arguments[0], "redlatch")
        program = arguments.index("--") + 1
        arguments[program] = pathlib.Path(arguments[program]).name
        stub = pathlib.Path(self.directory, "bin", arguments[program])
        if not stub.exists():
            stub.write_text(STUB)
            stub.chmod(0o755)
        run = Run(arguments, self.directory)
        self.addCleanup(run.end)
        return run

    def check_handover(self, arguments):
        """Of two candidates one runs the program. When SIGTERM ends it, the other one does."""
        first = self.start(arguments)
        early = first.await_output(rb"runs (\d+)")
        self.assertTrue(early, "the first candidate does not lead")
        second = self.start(arguments)
        began = time.monotonic()
        first.terminate()
        late = second.await_output(rb"runs (\d+)")
        self.assertTrue(late, "the second candidate does not lead")
        self.assertTrue(first.await_output(rb"ends"), "the program did not get SIGTERM")
        self.assertEqual(first.wait(PATIENCE), 0)
        self.assertGreater(int(late[1]), int(early[1]))
        lease = int(arguments[arguments.index("--lease") + 1].rstrip("s"))
        self.assertLess(time.monotonic() - began, lease / 2, "that was the lease, and no handover")

    def check_once(self, arguments):
        """Of two runs in a period, the first runs the program, and both succeed."""
        first = self.start(arguments)
        self.assertTrue(first.await_output(b"runs"))
        # Without --wait, it waits for twelve seconds, in case the next period begins then.
        program = arguments.index("--")
        second = self.start([*arguments[:program], "--wait", "1s", *arguments[program:]])
        self.assertEqual([first.wait(PATIENCE), second.wait(PATIENCE)], [0, 0])
        self.assertFalse(second.await_output(b"runs"))

    def test_crontab(self):
        [crontab] = blocks("cron-jobs", "crontab")
        url, line = crontab.splitlines()
        self.assertRegex(url, r"^REDLATCH_URL=redis://\S+$")
        times = re.match(r"((?:[0-9*/,-]+ ){5})(.*)", line)
        self.assertTrue(times, line)
        self.check_once(shlex.split(times[2]))

    def test_kubernetes(self):
        [text] = blocks("kubernetes", "yaml")
        deployment = yaml.safe_load(text)
        self.assertEqual(faults(deployment, DEPLOYMENT), [])
        pod = deployment["spec"]["template"]
        self.assertEqual(pod["metadata"]["labels"], deployment["spec"]["selector"]["matchLabels"])
        self.assertGreater(deployment["spec"]["replicas"], 1)
        [container] = pod["spec"]["containers"]
        command = container["command"]
        # As Kubernetes expands it, of what `env` defines.
        names = {variable["name"] for variable in container["env"]}
        self.assertEqual(set(re.findall(r"\$\((\w+)\)", " ".join(command))) - names, set())
        grace = int(command[command.index("--grace") + 1].rstrip("s"))
        self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], grace)
        self.check_handover(command)

    def test_docker_compose(self):
        [text] = blocks("docker-compose", "yaml")
        compose = yaml.safe_load(text)
        self.assertEqual(faults(compose, COMPOSE), [])
        encoder = compose["services"]["encoder"]
        run = self.start(encoder["command"])
        self.assertTrue(run.await_output(b"runs"))
        self.assertEqual(run.wait(PATIENCE), 0)
        # The server that the recipe sets up is one that doctor finds nothing wrong with.
        url = f"unix://{self.directory}/redis.sock"
        server = Run([*compose["services"]["redis"]["command"], "--port", "0", "--unixsocket",
                      f"{self.directory}/redis.sock", "--dir", self.directory], self.directory)
        self.addCleanup(server.end)
        self.assertTrue(server.await_output(b"[Rr]eady to accept connections"))
        doctor = subprocess.run([REDLATCH, "doctor", "--server", url], capture_output=True, text=True, check=False)
        self.assertEqual(doctor.returncode, 0, doctor.stdout + doctor.stderr)

    def test_units_run(self):
        commands = {name: shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M)[1])
                    for name, unit in units().items() if name.endswith(".service")}
        self.assertEqual(set(commands), {"scheduler.service", "report.service"})
        self.check_handover(commands["scheduler.service"])
        self.check_once(commands["report.service"])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is missing (Debian: systemd)")
    def test_systemd_accepts_the_units(self):
        folder = pathlib.Path(self.directory, "units")
        folder.mkdir()
        for name, unit in units().items():
            # It insists that the programs exist.
            (folder / name).write_text(re.sub(r"/usr/bin/\S+", "/bin/true", unit))
        for name in units():
            verified = subprocess.run(["systemd-analyze", "verify", str(folder / name)], capture_output=True,
                                      text=True, check=False)
            own = [line for line in verified.stderr.splitlines() if str(folder) in line or name in line]
            self.assertEqual(own, [], verified.stderr)

    def test_proto_is_what_the_program_is_built_from(self):
        built_from = RECIPES.parent / "code" / "grpc-server" / "seats.proto"
        self.assertEqual(blocks("grpc-server", "proto"), [built_from.read_text()])

    def test_mistakes_are_found(self):
        [text] = blocks("kubernetes", "yaml")
        for right, wrong in [("replicas: 2", "replicas: two"), ("command:", "comand:"),
                             ("image: registry.example/scheduler:1.0", "ports: []")]:
            self.assertIn(right, text)
            self.assertNotEqual(faults(yaml.safe_load(text.replace(right, wrong)), DEPLOYMENT), [])


if __name__ == "__main__":
    REDLATCH = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
