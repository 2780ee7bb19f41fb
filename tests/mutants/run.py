#!/usr/bin/env python3
"""Plants faults in a copy of the sources, one at a time. Tells which seed of the simulator and which test finds each.

  run.py                 those whose row of the page is not current
  run.py NAME...         those mutants, anew; the name of a file stands for its mutants that are not current
  --again                all of them anew
  --stale                anew those that were not run or not found, or by a test that is gone
  --list                 the names; fails if one does not apply to the sources any more
  --build                only sees whether each compiles
  --sim-only             leaves the unit tests out
  --seeds N              how many seeds the simulator may try for each (default 5000)
  --jobs N               how many of them at a time (default: one for each processor)

First the simulator tries 300 seeds, then the tests run, and then the simulator tries the other seeds, unless one
has failed. The results are in docs/mutants.md alone, which is rewritten after each step, so a run that was stopped
goes on where it was. A figure is current if the commit that it names has this fault and the present src/, include/ and
lua/, and no uncommitted changes (a plus sign). Seeds that fail with the unchanged sources are ignored.

A file of mutants:

  # a comment
  mutant name-that-says-the-fault
  path/of/a/source
  - text to be replaced, which occurs once in that file; of several lines each has a "- "
  + its replacement
  - another place in the same file
  + ...
  path/of/another/source
  ...
  test program Suite.Name

The last line names the test that must find the fault, if that test needs a real server.

Scripts are not compiled: the simulator's Redis runs the changed text in place of the embedded one.
"""
import argparse, contextlib, functools, hashlib, json, os, re, shutil, signal, subprocess, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / 'build/mutants'
TREE, BUILD, SCRIPTS = WORK / 'tree', WORK / 'build', WORK / 'scripts'
UNCHANGED = WORK / 'unchanged.json'
PAGE = ROOT / 'docs/mutants.md'
UNIT_PROGRAMS = {'scripts': ['tests/sim_tests'], 'sources': ['tests/state_tests', 'tests/unit_tests']}
# They compare the simulator's Redis with real ones; and scripts with parts of the embedded texts.
EXCEPT = 'RealServer*:FastPath.*'
SIMULATOR = 'tests/sim/redlatch-sim'
FIRST_SEEDS = 300
ROOMS = {
    'scripts': 'Scripts of simple and reentrant locks, and what all kinds share',
    'kinds': 'Scripts of read-write locks, semaphores, latches and multi-locks',
    'state': 'Decisions inside a client', 'runtime': 'Threads, timers, background work, the API',
    'connection': 'Connections, subscriptions, finding the server', 'quorum': 'Quorum',
    'fresh': 'Fresh faults',
    'survivors': 'Kinds that survived before'}
JOBS = os.environ.get('REDLATCH_JOBS', str(os.cpu_count()))


def die(text):
    sys.exit('mutants: ' + text)


class Mutant:
    def __init__(self, name, room):
        self.name, self.room = name, room
        self.changes = []  # [path, old, new]
        self.test = None  # (program, filter)

    def texts(self):
        """The changed text of each file."""
        texts = {}
        for path, old, new in self.changes:
            text = texts.get(path) or (ROOT / path).read_text()
            if text.count(old) != 1:
                die(f'{self.name} does not apply: {path} has this {text.count(old)} times:\n{old}')
            texts[path] = text.replace(old, new)
        return texts


def git(*words):
    done = subprocess.run(['git', *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


@functools.cache
def read_mutants(commit=None):
    """The mutants, or those of a commit, by name."""
    mutants = {}
    for room in ROOMS:
        path, last = None, None
        file = HERE / f'{room}.txt'
        text = git('show', f'{commit}:{file.relative_to(ROOT)}') or '' if commit else file.read_text()
        for line in text.splitlines():
            if not line.strip() or line.startswith('#'):
                last = None
            elif line.startswith('mutant '):
                mutant = Mutant(line[7:].strip(), room)
                if mutant.name in mutants:
                    die(f'two mutants are called {mutant.name}')
                mutants[mutant.name] = mutant
            elif line.startswith('test '):
                mutant.test = (f'tests/{line.split()[1]}', line.split()[2])
            elif line[:2] in ('- ', '-', '+ ', '+'):
                sign, text = line[0], line[2:] + '\n'
                if sign == '-' and last != '-':
                    mutant.changes.append([path, '', ''])
                mutant.changes[-1][1 if sign == '-' else 2] += text
                last = sign
            else:
                path, last = line.strip(), None
    for mutant in mutants.values():  # a single line may be a part of one
        for change in mutant.changes:
            single = change[1].count('\n') == 1
            change[1:] = [text.strip() if single else text.rstrip('\n') for text in change[1:]]
    return mutants


def write_if_changed(path, text):
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def make_tree():
    """A copy of what git knows, or would add; files that are the same are left alone. Answers its version."""
    listed = git('ls-files', '-z', '--cached', '--others', '--exclude-standard')
    known = {name for name in listed.split('\0') if name and (ROOT / name).is_file()}
    version = hashlib.sha1()
    for name in sorted(known):
        text = (ROOT / name).read_bytes()
        write_if_changed(TREE / name, text)
        shutil.copymode(ROOT / name, TREE / name)
        if not name.startswith(('docs/', 'tests/mutants/')):
            version.update(hashlib.sha1(name.encode() + text).digest())
    for path in TREE.rglob('*'):
        if path.is_file() and str(path.relative_to(TREE)) not in known:
            path.unlink()
    run(['cmake', '-S', TREE, '-B', BUILD, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Debug',
         '-DCMAKE_CXX_FLAGS_DEBUG=-O2 -D_GLIBCXX_ASSERTIONS', '-DREDLATCH_UNITY_BUILD=OFF',
         '-DREDLATCH_UNITY_TESTS=ON', '-DREDLATCH_BUILD_BENCHMARKS=OFF', '-DREDLATCH_BUILD_CLI=OFF',
         '-DREDLATCH_INSTALL=OFF', '-DREDLATCH_TEST_FOLDERS=unit;sim;redis;conformance'])
    return version.hexdigest()


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    if done.returncode != 0:
        die(f'{" ".join(map(str, command))} failed:\n{done.stdout[-4000:]}')


def build(program):
    run(['ninja', '-C', BUILD, '-j', JOBS, Path(program).name])


def assemble(name, texts, done):
    """As cmake/embed_lua.cmake does it."""
    if name in done:
        return ''
    done.add(name)
    path = f'lua/{name}.lua'
    text = texts[path] if path in texts else (ROOT / path).read_text()

    def piece(found):
        if found[1] == 'include':
            return assemble(found[2], texts, done)
        done.add(found[2])  # the script defines it itself
        return ''
    return re.sub(r'^-- (include|replaces): ([a-z0-9_/]+)\n', piece, text, flags=re.M)


def script_mutants(texts):
    """The directory from which the simulator's Redis takes the scripts that are changed."""
    shutil.rmtree(SCRIPTS, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    for path in sorted((ROOT / 'lua').glob('*/*.lua')):
        name = str(path.relative_to(ROOT / 'lua').with_suffix('')).replace(os.sep, '/')
        if name.startswith('common/'):
            continue
        before, after = assemble(name, {}, set()), assemble(name, texts, set())
        if before == after:
            continue
        target = SCRIPTS / hashlib.sha1(before.encode()).hexdigest()
        target.write_text(after)
        run(['luac5.1', '-p', target])
    if not any(SCRIPTS.iterdir()):
        die('no script is changed')


def watch(command, pattern, limit, environment, take):
    """Runs a program until it ends, and answers its exit code; or until `take` answers that a match is enough."""
    process = subprocess.Popen(['timeout', '-k', '1', str(limit), *map(str, command)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, errors='replace', env=environment,
                               start_new_session=True)
    try:
        for line in process.stdout:
            matched = re.search(pattern, line)
            if matched and take(matched):
                return None
        return process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # runs in progress, too
        process.stdout.close()
        process.wait()


def unit_failure(environment, what, last=None):
    """The first test that fails. Most mutants are found before the other programs are built."""
    programs = [(program, '-' + EXCEPT) for program in UNIT_PROGRAMS[what]]
    for program, tested in programs + ([last] if last else []):
        build(program)
        tests = []
        code = watch([BUILD / program, '--gtest_brief=1', '--gtest_fail_fast', f'--gtest_filter={tested}'],
                     r'\[  FAILED  \] ([\w./]+)', 3600, environment, lambda found: tests.append(found[1]) or True)
        if tests or code != 0:
            return tests[0] if tests else f'{Path(program).name} {"hangs" if code == 124 else "crashes"}'
    return None


def simulate(first, last, jobs, environment, known=None):
    """How seeds fail, by seed: all of them, or the first one that is not known to fail."""
    failed = {}

    def take(found):
        failed[int(found[1])] = found[2]
        return known is not None and int(found[1]) not in known
    code = watch([BUILD / SIMULATOR, '--shrink', 0, '--jobs', jobs, '--failures', 10**9, '--from', first, '--seeds',
                  last - first + 1],
                 r'^seed (\d+): (?!a second run)(?:at \d+ us: )?(.*)', 3600 + 10 * (last - first), environment, take)
    if code not in (None, 0, 1):
        failed[0] = 'the simulator hangs' if code == 124 else 'the simulator crashes'
    return {seed: how for seed, how in failed.items() if seed not in (known or ())}


def try_unchanged(version, kinds, options):
    """Runs the tests with the unchanged sources, unless that was done. Answers the seeds that fail."""
    done = json.loads(UNCHANGED.read_text()) if UNCHANGED.exists() else {}
    if done.get('version') != version:
        done = {'version': version, 'seeds': 0, 'known': [], 'tests': []}
    for what in [] if options.sim_only else sorted(kinds - set(done['tests'])):
        if failed := unit_failure(dict(os.environ), what):
            die(f'{failed}, with the unchanged sources')
        done['tests'].append(what)
        UNCHANGED.write_text(json.dumps(done))
    build(SIMULATOR)
    if done['seeds'] < options.seeds:
        failed = simulate(done['seeds'] + 1, options.seeds, options.jobs, dict(os.environ))
        if 0 in failed:
            die(f'{failed[0]}, with the unchanged sources')
        done.update(known=done['known'] + list(failed), seeds=options.seeds)
        UNCHANGED.write_text(json.dumps(done))
    print(f'unchanged: {len(done["known"])} of {done["seeds"]} seeds fail, and are ignored', flush=True)
    return set(done['known'])


def seeds_tried(row):
    tried = re.fullmatch(r'not found in (\d+) seeds', row.get('simulator', 'not found in 0 seeds'))
    return int(tried[1]) if tried else 10**9


def judge(mutant, row, known, options, save):
    """Plants a mutant and runs what is missing in its row, which is saved after each step."""
    scripts = {path: text for path, text in mutant.texts().items() if path.startswith('lua/')}
    sources = {path: text for path, text in mutant.texts().items() if path not in scripts}
    environment = dict(os.environ)
    if scripts:
        script_mutants(scripts)
        environment['REDLATCH_SIM_SCRIPTS'] = str(SCRIPTS)
    for path, text in sources.items():
        write_if_changed(TREE / path, text.encode())

    def simulator(seeds):
        if (tried := seeds_tried(row)) >= seeds:
            return
        build(SIMULATOR)
        failed = simulate(tried + 1, seeds, options.jobs, environment, known)
        row['simulator'] = f'not found in {seeds} seeds'
        for seed, how in failed.items():
            row['simulator'] = f'seed {seed}: {shorten(how)}'
        save('simulator')

    try:
        if options.build:
            return build(SIMULATOR)
        simulator(min(FIRST_SEEDS, options.seeds))
        if 'tests' not in row and not options.sim_only:
            what = 'sources' if sources else 'scripts'
            row['tests'] = unit_failure(environment, what, mutant.test) or 'none'
            save('tests')
        simulator(options.seeds)
    finally:
        for path in sources:
            write_if_changed(TREE / path, (ROOT / path).read_bytes())


def shorten(how):
    """Of a violation only what kind it is."""
    how = re.sub(r': o\d .*', '', how) if 'P1' in how else how
    return re.sub(r'[|`]', '/', how)[:90].strip()


COLUMNS = ('simulator', 'tests')


def load_rows():
    """What the page says of each mutant: (figure, commit) by column."""
    rows = {}
    for name, *cells in re.findall(r'^\| ([\w-]+) \| (.*?) \| (.*?) \|$', PAGE.read_text(), flags=re.M):
        figures = [re.fullmatch(r'(.*) \(`(\w+\+?)`\)', cell) for cell in cells]
        rows[name] = {column: (its[1], its[2]) for column, its in zip(COLUMNS, figures) if its}
    return rows


def finds(figure):
    return bool(figure) and not figure[0].startswith(('not found', 'none'))


def is_gone(figure):
    """Whether a test has another name now."""
    test = re.fullmatch(r'(?:\w+/)?(\w+\.\w+)(?:/\w+)?', figure[0])
    return bool(test) and test[1] not in all_tests()


@functools.cache
def all_tests():
    text = ''.join(path.read_text() for path in HERE.parent.rglob('*_test.cc'))
    return {'.'.join(names) for names in re.findall(r'TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)', text)}


@functools.cache
def has_these_sources(commit):
    return not commit.endswith('+') and git('diff', '--quiet', commit, '--', 'src', 'include', 'lua') is not None


def is_current(mutant, figure):
    before = has_these_sources(figure[1]) and read_mutants(figure[1]).get(mutant.name)
    return bool(before) and before.changes == mutant.changes


def write_page(mutants, rows):
    def share(which):
        ran = [row for row in rows.values() if row.keys() >= set(which) or any(finds(row.get(one)) for one in which)]
        found = sum(any(finds(row.get(one)) for one in which) for row in ran)
        return f'{found} of {len(ran)} ({100 * found // max(len(ran), 1)} %)'
    rows = {name: {column: figure for column, figure in rows[name].items() if not is_gone(figure)}
            for name in mutants if rows.get(name)}
    lines = ['# Mutants', '',
             'Each mutant is a copy of redlatch with one planted fault, which the tests must find. The simulator finds',
             f'{share(["simulator"])} of those that it tried, the tests',
             f'{share(["tests"])}, and one of them or both {share(COLUMNS)}.', '',
             'The table names the first seed of `./dev sim` that failed, with what was broken, and the first test that',
             'failed, each with the commit at which it ran; a plus sign stands for uncommitted changes. The faults are',
             f'in `tests/mutants/`. `./dev mutants` plants them and rewrites this page. {len(rows)} of {len(mutants)}',
             'have been run.', '']
    for room, title in ROOMS.items():
        its = [name for name in rows if mutants[name].room == room]
        if its:
            lines += [f'## {title}', '', '| mutant | simulator | tests |', '|---|---|---|']
        for name in its:
            cells = ['{} (`{}`)'.format(*rows[name][each]) if each in rows[name] else '' for each in COLUMNS]
            lines.append(f'| {name} | {cells[0]} | {cells[1]} |')
        lines += [''] if its else []
    PAGE.write_text('\n'.join(lines).rstrip() + '\n')


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument('names', nargs='*')
    for flag in ('again', 'stale', 'list', 'build', 'sim-only'):
        parser.add_argument(f'--{flag}', action='store_true')
    parser.add_argument('--seeds', type=int, default=5000)
    parser.add_argument('--jobs', default=JOBS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: die('it was ended'))  # and so are the programs that it runs
    mutants = read_mutants()
    if options.list:
        for mutant in mutants.values():
            mutant.texts()
            print(mutant.name)
        return 0
    if unknown := set(options.names) - set(mutants) - set(ROOMS):
        die(f'there is no mutant {", ".join(sorted(unknown))}')
    rows = load_rows()
    wanted = [m for m in mutants.values() if not options.names or {m.name, m.room} & set(options.names)]
    if options.stale:
        wanted = [m for m in wanted if not any(map(finds, rows.get(m.name, {}).values())) or
                  any(map(is_gone, rows[m.name].values()))]
    # What is compiled for a mutant of a file serves the next one of that file.
    wanted.sort(key=lambda m: [(path[:4] != 'lua/', path) for path, _, _ in m.changes])
    kinds = {'scripts' if path.startswith('lua/') else 'sources' for m in wanted for path in m.texts()}
    commit = git('rev-parse', '--short=8', 'HEAD').strip() + '+' * bool(git('status', '--porcelain', '--', ':!docs'))
    version = make_tree()
    known = set() if options.build else try_unchanged(version, kinds, options)
    survivors = []
    for i, mutant in enumerate(wanted):
        anew = options.again or options.stale or mutant.name in options.names
        row = {} if anew else {column: figure[0] for column, figure in rows.get(mutant.name, {}).items()
                               if is_current(mutant, figure) and not is_gone(figure)}

        def save(column):
            rows.setdefault(mutant.name, {})[column] = (row[column], commit)
            write_page(mutants, rows)
        print(f'{i + 1}/{len(wanted)} {mutant.name}', end=': ', flush=True)
        if seeds_tried(row) < options.seeds or not ('tests' in row or options.sim_only):
            judge(mutant, row, known, options, save)
        if not options.build and not any(finds((figure,)) for figure in row.values()):
            survivors.append(mutant.name)
        print('; '.join(row.values()), flush=True)
    print(''.join(f'not found: {name}\n' for name in survivors), end='')
    return bool(survivors)


if __name__ == '__main__':
    sys.exit(main())
