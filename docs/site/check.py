#!/usr/bin/env python3
"""Looks at the pages of build/site in Chromium: `./dev docs --check` builds the site and calls it.

check.py [--no-axe] [--pictures DIR [--height PIXELS] [PAGE...]]

At a width of 390, 820 and 1440 pixels, no page may scroll sideways or ask another host for anything;
each picture's text must be legible at 390 pixels. axe-core may find nothing, in either scheme. It is
searched for in AXE (the path of axe.min.js) and in node_modules and build/node_modules; --no-axe leaves
it out. --pictures writes what the pages look like at all three widths, in both schemes, down to --height
(1800).
"""
import argparse
import base64
import functools
import http.server
import os
import pathlib
import signal
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SITE = ROOT / "build" / "site"
WIDTHS = (390, 820, 1440)
# All rules at the widest and the narrowest; the colours in the other scheme as well.
AXE_RUNS = ((1440, "default", None), (1440, "slate", ["color-contrast"]),
            (390, "slate", None), (390, "default", ["color-contrast"]))
SMALLEST_TEXT = 8.5  # pixels, of a picture's text as shown
AXE_PLACES = (ROOT / "node_modules/axe-core/axe.min.js", ROOT / "build/node_modules/axe-core/axe.min.js")
MEASURE = """
const page = document.scrollingElement;
window.scrollTo(9999, 0);
const moved = window.scrollX;
window.scrollTo(0, 0);
const others = performance.getEntriesByType('resource').map(each => each.name)
  .filter(name => !name.startsWith(location.origin) && !name.startsWith('data:'));
return {scroll: page.scrollWidth, width: innerWidth, moved, others,
        broken: [...document.images].filter(each => !each.naturalWidth).map(each => each.src),
        pictures: [...document.querySelectorAll('article img')].map(
          each => [each.getAttribute('src'), each.clientWidth / each.naturalWidth])};
"""
AXE = """
const [scheme, rules, done] = arguments;
const options = {resultTypes: ['violations']};
if (rules) options.runOnly = {type: 'rule', values: rules};
document.body.setAttribute('data-md-color-scheme', scheme);
// The theme sets a tabindex on code that scrolls, soon after the width has changed.
const end = performance.now() + 2000;
const settled = () => new Promise(resolve => {
  const look = () => performance.now() > end || ![...document.querySelectorAll('pre > code')].some(
    each => each.scrollWidth > each.clientWidth && each.tabIndex < 0) ? resolve() : setTimeout(look, 20);
  setTimeout(look, 20);
});
settled().then(() => Promise.all(document.getAnimations().map(each => each.finished))).then(
  () => axe.run(document, options)).then(
  result => done(result.violations.map(each => each.id + ': ' + each.help + ': ' +
    each.nodes.slice(0, 3).map(node => node.target.join(' ') + ' ' +
      (node.any[0] ? node.any[0].message : '')).join('; '))),
  error => done(['axe failed: ' + error]));
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Chromium closes connections of which it needs nothing more."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def find_axe():
    named = os.environ.get("AXE")
    return next((path for path in ([pathlib.Path(named)] if named else AXE_PLACES) if path.exists()), None)


class Browser:
    def __init__(self, webdriver, service):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-dev-shm-usage"):
            options.add_argument(flag)
        self.driver = webdriver.Chrome(service=service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(120)

    def resize(self, width):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})

    def show(self, url, width, scheme):
        self.resize(width)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.driver.get(url)

    def take_picture(self, path, height=None):
        metrics = {"captureBeyondViewport": True}
        if height:
            width = self.driver.execute_script("return innerWidth")
            metrics["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.driver.execute_cdp_cmd("Page.captureScreenshot", metrics)["data"]
        path.write_bytes(base64.b64decode(data))


def faults_of(measured, name, width):
    where = f"{name} at {width} px"
    if measured["moved"] or measured["scroll"] > measured["width"]:
        yield "scroll", f"{where} scrolls sideways: its content is {measured['scroll']} px wide"
    for url in measured["others"]:
        yield "host", f"{where} asks another host: {url}"
    for url in measured["broken"]:
        yield "picture", f"{where}: no picture at {url}"
    for source, scale in measured["pictures"]:
        if 12 * scale < SMALLEST_TEXT:
            yield "picture", f"{where}: {source} is shown at {scale:.2f} of its size"


def check(browser, base, pages, axe):
    problems = []
    for page in pages:
        name = page.relative_to(SITE).as_posix()
        browser.show(base + name, WIDTHS[0], "light")
        for width in WIDTHS:
            browser.resize(width)
            problems += faults_of(browser.driver.execute_script(MEASURE), name, width)
        if axe:
            browser.driver.execute_script(axe)
        for width, scheme, rules in AXE_RUNS if axe else ():
            browser.resize(width)
            problems += [("axe", f"{name} at {width} px, {scheme}: {finding}")
                         for finding in browser.driver.execute_async_script(AXE, scheme, rules)]
    return problems


def take_pictures(browser, base, folder, names, height):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                browser.show(base + name, width, scheme)
                file = f"{name.replace('/', '-').removesuffix('.html')}-{width}-{scheme}.png"
                browser.take_picture(folder / file, height)


def report(problems, pages, axe):
    kinds = {"scroll": "pages that scroll sideways", "host": "requests to other hosts",
             "picture": "pictures that cannot be read", "axe": "findings of axe"}
    print("\n".join(text for _, text in problems))
    for kind, words in kinds.items():
        if kind != "axe" or axe:
            print(f"{sum(each == kind for each, _ in problems):4d}  {words}")
    print(f"{len(pages):4d}  pages, at {', '.join(map(str, WIDTHS))} px")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-axe", action="store_true")
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--height", type=int, default=1800)
    parser.add_argument("pages", nargs="*")
    options = parser.parse_args()
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        sys.exit("no selenium: install Debian's python3-selenium, chromium and chromium-driver")
    path = None if options.no_axe else find_axe()
    if path is None and not options.no_axe and not options.pictures:
        sys.exit("no axe-core: run `npm install --prefix build axe-core`, set AXE to the path of axe.min.js, "
                 "or pass --no-axe")
    pages = [SITE / name for name in options.pages] or sorted(SITE.rglob("*.html"))
    handler = functools.partial(Quiet, directory=str(SITE))
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the browser ends, too
    browser = Browser(webdriver, Service)
    try:
        if options.pictures:
            take_pictures(browser, base, options.pictures, options.pages or ["index.html"], options.height)
            return 0
        axe = path.read_text(encoding="utf-8") if path else None
        problems = check(browser, base, pages, axe)
        report(problems, pages, axe)
        return 1 if problems else 0
    finally:
        browser.driver.quit()
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
