#!/usr/bin/env python3
"""Plants faults in a copy of the sources, one at a time, and tells which test finds each.

  run.py [NAME...]       those mutants; all, if none is named. Other rows of the page are kept
  run.py --stale         those that were not run or not found, or by a test that is gone
  run.py --list          the names; fails if one does not apply to the sources any more
  run.py --build         only sees whether each compiles
  --seeds N              how many seeds the simulator may try for each (default 1500)

The copy is in build/mutants/tree, its build beside it. The results are in docs/mutants.md alone,
which is rewritten after each mutant.

A file of mutants:

  # a comment
  mutant name-that-says-the-fault       or: mutant name in cluster, sentinel
  path/of/a/source
  - text to be replaced, which occurs once in that file; of several lines each has a "- "
  + its replacement
  - another place in the same file
  + ...
  path/of/another/source
  ...

Behind `in` stand the server groups with which the simulator looks for it; else it is a single
server, and a quorum for what is in quorum.txt. Scripts are not compiled: the simulator's Redis
runs the changed text in place of the one that was embedded.
"""
import argparse, functools, hashlib, os, re, resource, shutil, signal, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / 'build/mutants'
TREE, BUILD, SCRIPTS = WORK / 'tree', WORK / 'build', WORK / 'scripts'
PAGE = ROOT / 'docs/mutants.md'
NOT_FOUND = '**not found**'
UNIT_PROGRAMS = {'scripts': ['tests/sim_tests'], 'sources': ['tests/state_tests', 'tests/unit_tests']}
# They compare the simulator's Redis with real ones; and scripts with parts of the embedded texts.
EXCEPT = 'RealServer.*:FastPath.*'
SIMULATOR = 'tests/sim/redlatch-sim'
SHARES = {'quorum': 4}  # of the seeds: a run of a quorum takes so many times as long
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
    def __init__(self, name, room, groups):
        self.name, self.room = name, room
        self.groups = groups or (['quorum'] if room == 'quorum' else ['single'])
        self.changes = []  # [path, old, new]

    def texts(self):
        """The changed text of each file."""
        texts = {}
        for path, old, new in self.changes:
            text = texts.get(path) or (ROOT / path).read_text()
            if text.count(old) != 1:
                die(f'{self.name} does not apply: {path} has this {text.count(old)} times:\n{old}')
            texts[path] = text.replace(old, new)
        return texts


def read_mutants():
    mutants = []
    for room in ROOMS:
        path, last = None, None
        for line in (HERE / f'{room}.txt').read_text().splitlines():
            if not line.strip() or line.startswith('#'):
                last = None
            elif line.startswith('mutant '):
                name, _, groups = line[7:].partition(' in ')
                mutants.append(Mutant(name.strip(), room, re.findall(r'\w+', groups)))
            elif line[:2] in ('- ', '-', '+ ', '+'):
                changes = mutants[-1].changes
                sign, text = line[0], line[2:] + '\n'
                if sign == '-' and last != '-':
                    changes.append([path, '', ''])
                changes[-1][1 if sign == '-' else 2] += text
                last = sign
            else:
                path, last = line.strip(), None
    for mutant in mutants:  # a single line may be a part of one
        for change in mutant.changes:
            if change[1].count('\n') == 1:
                change[1], change[2] = change[1].strip(), change[2].strip()
            else:
                change[1], change[2] = change[1].rstrip('\n'), change[2].rstrip('\n')
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            die(f'two mutants are called {name}')
    return mutants


def write_if_changed(path, text):
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def make_tree():
    """A copy of what git knows, or would add; files that are the same are left alone."""
    listed = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                            cwd=ROOT, check=True, capture_output=True).stdout.decode()
    known = {name for name in listed.split('\0') if name and (ROOT / name).is_file()}
    for name in known:
        write_if_changed(TREE / name, (ROOT / name).read_bytes())
        shutil.copymode(ROOT / name, TREE / name)
    for path in TREE.rglob('*'):
        if path.is_file() and str(path.relative_to(TREE)) not in known:
            path.unlink()
    run(['cmake', '-S', TREE, '-B', BUILD, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Debug',
         '-DCMAKE_CXX_FLAGS_DEBUG=-O1 -D_GLIBCXX_ASSERTIONS', '-DREDLATCH_UNITY_BUILD=OFF', '-DREDLATCH_UNITY_TESTS=ON',
         '-DREDLATCH_BUILD_BENCHMARKS=OFF', '-DREDLATCH_BUILD_CLI=OFF', '-DREDLATCH_INSTALL=OFF',
         '-DREDLATCH_TEST_FOLDERS=unit;sim'])


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', **more)
    if done.returncode != 0:
        die(f'{" ".join(map(str, command))} failed:\n{done.stdout[-4000:]}')
    return done.stdout


def build(programs):
    programs = [Path(each).name for each in programs]
    done = subprocess.run(['ninja', '-C', BUILD, '-j', JOBS, *programs], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace')
    return None if done.returncode == 0 else done.stdout[-3000:]


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


def first_failure(command, pattern, limit, environment, known=()):
    """Runs a program that ends soon after its first failure. Answers what `pattern` matches of that, or
    None, the exit code, and how many seconds of a processor it took: how busy the machine is makes no
    difference."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(['timeout', '-k', '1', str(limit), *map(str, command)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               errors='replace', env=environment, start_new_session=True)
    found = None
    for line in process.stdout:
        matched = re.search(pattern, line)
        if matched and matched[1] not in known and not found:
            found = matched
    process.stdout.close()
    code = process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)  # runs in progress
    except ProcessLookupError:
        pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found, code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def unit_failure(environment, what, ready=lambda program: None):
    """The first test that fails, and how long that took. `ready` is called with each program before it runs."""
    took, limit = 0.0, 900
    for program in UNIT_PROGRAMS[what]:
        ready(program)
        found, code, seconds = first_failure(
            [BUILD / program, '--gtest_brief=1', '--gtest_fail_fast', f'--gtest_filter=-{EXCEPT}'],
            r'\[  FAILED  \] ([\w./]+)', limit, environment)
        took += seconds
        if found:
            return found[1], took
        if code == 124:
            return f'{Path(program).name} hangs', took
        if code != 0:
            return f'{Path(program).name} crashes', took
    return None, took


def simulated(group, seeds, environment, known=()):
    """The first seed, and how it fails, or None; and how long that took."""
    found, code, took = first_failure(
        [BUILD / SIMULATOR, '--group', group, '--shrink', '0', '--jobs', JOBS, '--failures',
         len(known) + 1, '--seeds', seeds // SHARES.get(group, 1)],
        r'^seed (\d+): (?!a second run)(?:at \d+ us: )?(.*)', 900, environment, known)
    if found:
        return f'seed {found[1]}: {found[2]}', took
    return {0: None, 1: None, 124: 'hangs'}.get(code, 'crashes'), took


def known_failures(groups, seeds):
    """Seeds that fail with the unchanged sources: they prove nothing."""
    known = {}
    for group in groups:
        output = subprocess.run(
            [BUILD / SIMULATOR, '--group', group, '--shrink', '0', '--jobs', JOBS, '--failures',
             '1000000', '--seeds', str(seeds // SHARES.get(group, 1))], capture_output=True, text=True).stdout
        known[group] = set(re.findall(r'^seed (\d+):', output, flags=re.M))
        runs = re.search(r'^(\d+) runs', output, flags=re.M)
        print(f'unchanged, {group}: {runs[1] if runs else "no"} runs, '
              f'{len(known[group])} of them fail and are ignored', flush=True)
    return known


def judge(mutant, seeds, known):
    """Applies a mutant and runs the tests. Answers what is written down of it."""
    texts = mutant.texts()
    scripts = {path: text for path, text in texts.items() if path.startswith('lua/')}
    environment = dict(os.environ, REDLATCH_TEST_SCALE=os.environ.get('REDLATCH_TEST_SCALE', '1'))
    if scripts:
        script_mutants(scripts)
        environment['REDLATCH_SIM_SCRIPTS'] = str(SCRIPTS)
    sources = {path: text for path, text in texts.items() if path not in scripts}
    for path, text in sources.items():
        write_if_changed(TREE / path, text.encode())
    result = {'built': 0.0, 'by': None, 'how': '', 'took': 0.0}

    def ready(program):  # most mutants are found before the other programs are needed
        if not sources:
            return
        began = time.monotonic()
        if error := build([program]):
            restore(sources)
            die(f'{mutant.name} does not compile:\n{error}')
        result['built'] = round(result['built'] + time.monotonic() - began, 1)

    if seeds == 0:
        ready(SIMULATOR)
    else:
        failed, took = unit_failure(environment, 'sources' if sources else 'scripts', ready)
        result['took'] += took
        if failed:
            result.update(by='unit', how=failed)
        else:
            ready(SIMULATOR)
            for group in mutant.groups:
                failed, took = simulated(group, seeds, environment, known[group])
                result['took'] += took
                if failed:
                    result.update(by=f'simulator, {group}', how=failed)
                    break
    restore(sources)
    result['took'] = round(result['took'], 1)
    return result


def restore(sources):
    for path in sources:
        write_if_changed(TREE / path, (ROOT / path).read_bytes())


def load_results():
    """What the page says of each mutant."""
    results = {}
    for name, how, took in re.findall(r'^\| ([\w-]+) \| (.+) \| ([\d.]+) \|$', PAGE.read_text(), flags=re.M):
        simulated = re.fullmatch(r'(.*) \((single|sentinel|cluster|quorum)\)', how)
        by = None if how == NOT_FOUND else f'simulator, {simulated[2]}' if simulated else 'unit'
        results[name] = {'by': by, 'how': simulated[1] if simulated else how, 'took': float(took)}
    return results


def write_page(mutants, results):
    # The table names no test that is gone.
    judged = [mutant for mutant in mutants if mutant.name in results and
              not (results[mutant.name]['by'] and is_stale(results[mutant.name]))]
    caught = [mutant for mutant in judged if results[mutant.name]['by']]
    lines = ['# Mutants', '',
             'Each mutant is a copy of redlatch with one planted fault, which the tests must find. The table names',
             'the first test that fails, and the processor time that the tests took until then, in seconds. If no',
             'unit test fails, the simulator runs. The table then shows its seed and the promise that was broken.',
             'The faults are in `tests/mutants/`. `./dev mutants` plants them and rewrites this page.', '',
             f'{len(caught)} of {len(judged)} mutants are found: '
             f'{sum(results[m.name]["by"] == "unit" for m in caught)} by a unit test, '
             f'{sum(results[m.name]["by"] != "unit" for m in caught)} by the simulator. '
             f'{len(mutants) - len(judged)} have not been run yet.', '']
    for room, title in ROOMS.items():
        its = [mutant for mutant in judged if mutant.room == room]
        if its:
            lines += [f'## {title}', '', '| mutant | found by | s |', '|---|---|---|']
            for mutant in its:
                result = results[mutant.name]
                how = result['how'] if result['by'] == 'unit' else shorten(result['how'])
                how = how if result['by'] else NOT_FOUND
                where = f' ({result["by"].split(", ")[1]})' if ',' in (result['by'] or '') else ''
                lines.append(f'| {mutant.name} | {how}{where} | {result["took"]:.1f} |')
            lines.append('')
    PAGE.write_text('\n'.join(lines).rstrip() + '\n')


def is_stale(result):
    """Whether a mutant is to be run again: it was not found, or its test has another name now."""
    if result is None or not result['by']:
        return True
    test = re.search(r'(\w+)\.(\w+)', result['how'])
    if result['by'] != 'unit' or not test:
        return False
    return not re.search(rf'TEST(_[FP])?\(\s*{test[1]},\s*{test[2]}\)', all_tests())


@functools.cache
def all_tests():
    return ''.join(path.read_text() for folder in ('unit', 'sim')
                   for path in sorted((ROOT / 'tests' / folder).rglob('*_test.cc')))


def shorten(how):
    """Of a violation only what kind it is."""
    how = re.sub(r': o\d .*', '', how) if 'P1' in how else how
    return how.replace('|', '/')[:90]


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument('names', nargs='*')
    parser.add_argument('--stale', action='store_true')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--build', action='store_true')
    parser.add_argument('--seeds', type=int, default=1500)
    options = parser.parse_args()
    mutants = read_mutants()
    results = load_results()
    if options.list:
        for mutant in mutants:
            mutant.texts()
            print(mutant.name)
        return 0
    wanted = [m for m in mutants if not options.names or m.name in options.names or
              m.room in options.names]
    if options.stale:
        wanted = [m for m in wanted if is_stale(results.get(m.name))]
    if unknown := set(options.names) - {m.name for m in mutants} - set(ROOMS):
        die(f'there is no mutant {", ".join(sorted(unknown))}')
    for mutant in wanted:
        mutant.texts()
    make_tree()
    kinds = {'scripts' if path.startswith('lua/') else 'sources'
             for mutant in wanted for path, _, _ in mutant.changes}
    for what in kinds:
        if error := build(UNIT_PROGRAMS[what] + [SIMULATOR]):
            die(f'the unchanged sources do not compile:\n{error}')
    seeds = 0 if options.build else options.seeds
    known = {}
    if seeds > 0:
        for what in kinds:
            failed, took = unit_failure(dict(os.environ), what)
            if failed:
                die(f'{failed}, with the unchanged sources')
            print(f'unchanged, unit tests of {what}: {took:.1f} s', flush=True)
        known = known_failures(sorted({group for m in wanted for group in m.groups}), seeds)
    survivors = []
    for i, mutant in enumerate(wanted):
        result = judge(mutant, seeds, known)
        if seeds > 0:
            results[mutant.name] = result
            write_page(mutants, results)
            if not result['by']:
                survivors.append(mutant.name)
        print(f'{i + 1}/{len(wanted)} {mutant.name}: {result["how"][:150] or "NOT FOUND"}, '
              f'built in {result["built"]} s, ran {result["took"]} s', flush=True)
    if seeds > 0:
        print(f'{len(wanted) - len(survivors)} of {len(wanted)} are found; docs/mutants.md has all')
        for name in survivors:
            print(f'not found: {name}')
        return 1 if survivors else 0
    return 0


if __name__ == '__main__':
    sys.exit(main())
