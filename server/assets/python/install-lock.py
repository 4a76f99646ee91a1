"""Installs the packages of a lock file into the environment that runs this program, with pip.

    install-lock.py uv.lock | poetry.lock | pdm.lock | Pipfile.lock | Pipfile | pyproject.toml

A lock file is read as its own tool would install it in production: exactly its versions, checked against its hashes,
without the groups for development, and only what this machine needs (the markers of PEP 508). pip takes the packages
from its own index, so that an operator's mirror serves them too. A Pipfile and a Poetry project without a lock give
the newest versions within their ranges.
"""

import json
import os
import subprocess
import sys
import tempfile

from pip._vendor.packaging.markers import InvalidMarker, Marker
from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet
from pip._vendor.packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib


class Unreadable(Exception):
    """Says what a lock file has that this program cannot install."""


def main(path):
    readers = {
        'uv.lock': read_uv,
        'poetry.lock': read_poetry,
        'pdm.lock': read_pdm,
        'Pipfile.lock': read_pipfile_lock,
        'Pipfile': read_pipfile,
        'pyproject.toml': read_poetry_project,
    }
    try:
        lines = readers[os.path.basename(path)](path)
    except Unreadable as error:
        sys.exit(f'{path}: {error}')
    except (KeyError, TypeError, ValueError, AttributeError, OSError, InvalidRequirement) as error:
        sys.exit(f'{path} cannot be read: {error!r}. Make it again with its own tool.')
    locked = path.endswith('.lock')
    # With hashes pip wants them for all, which a commit of git and a folder do not have.
    for group in ([line for line in lines if '--hash' in line], [line for line in lines if '--hash' not in line]):
        if group:
            install(group, ['--no-deps'] if locked else [])


def install(lines, options):
    for line in lines:
        if '\n' in line or '\r' in line:
            raise SystemExit('A name or an address in the lock file has a line break.')
    with tempfile.NamedTemporaryFile('w', suffix='.txt', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')
        file.flush()
        command = [sys.executable, '-m', 'pip', 'install', '--no-input', *options, '-r', file.name]
        print(f'{len(lines)} packages are installed by pip.', flush=True)
        code = subprocess.run(command, check=False).returncode
    if code != 0:
        sys.exit(code)


def load(path):
    with open(path, 'rb') as file:
        return tomllib.load(file)


def applies(marker, extras=()):
    """Tells whether a marker holds here; `extras` are those that were asked for."""
    if not marker:
        return True
    try:
        return any(Marker(marker).evaluate({'extra': extra}) for extra in ('', *extras))
    except InvalidMarker as error:
        raise Unreadable(f'the marker {marker!r} is not understood') from error


def pinned(name, version, hashes, extras=()):
    named = f'{name}[{",".join(sorted(extras))}]' if extras else name
    return ' '.join([f'{named}=={version}', *(f'--hash={each}' for each in dict.fromkeys(hashes) if each)])


def walk(roots, edges):
    """Returns what is reached from the roots, each a node and the extras that are asked of it, in order."""
    reached = {}
    queue = list(roots)
    while queue:
        node, extras = queue.pop(0)
        known = reached.get(node)
        if known is not None and set(extras) <= known:
            continue
        reached[node] = (known or set()) | set(extras)
        queue.extend(edges(node, reached[node]))
    return list(reached)


# uv: https://docs.astral.sh/uv/concepts/projects/layout/#the-lockfile


def read_uv(path):
    lock = load(path)
    packages = lock.get('package', [])
    by_name = {}
    for index, package in enumerate(packages):
        by_name.setdefault(package['name'], []).append(index)
    root = next((index for index, package in enumerate(packages) if folder_of(package) == '.'), None)
    if root is None:
        raise Unreadable('it has no entry for the project in this folder')

    def find(dependency):
        for index in by_name.get(dependency['name'], []):
            package = packages[index]
            if all(dependency.get(key, package.get(key)) == package.get(key) for key in ('version', 'source')):
                if any(applies(marker) for marker in package.get('resolution-markers', [''])):
                    return index
        raise Unreadable(f'it has no entry for {dependency["name"]!r}')

    def edges(index, extras):
        package = packages[index]
        optional = package.get('optional-dependencies', {})
        for dependency in [*package.get('dependencies', []), *(each for extra in extras for each in optional.get(extra, []))]:
            if applies(dependency.get('marker'), extras):
                yield find(dependency), dependency.get('extra', [])

    order = walk([(root, [])], edges)
    return [line for index in order if (line := uv_line(packages[index])) is not None]


def folder_of(package):
    source = package.get('source', {})
    return next((source[kind] for kind in ('virtual', 'editable', 'directory') if kind in source), None)


def uv_line(package):
    source = package.get('source', {})
    files = [*package.get('wheels', []), *([package['sdist']] if 'sdist' in package else [])]
    hashes = [file.get('hash') for file in files]
    name = package['name']
    if 'virtual' in source:
        return None
    if 'editable' in source:
        return f'-e {local(source["editable"])}'
    if 'directory' in source:
        return local(source['directory'])
    if 'git' in source:
        address, _, commit = source['git'].partition('#')
        return f'{name} @ git+{address.partition("?")[0]}@{commit}'
    if 'path' in source or 'url' in source:
        place = source['url'] if 'url' in source else local(source['path'])
        return ' '.join([f'{name} @ {place}' if 'url' in source else place, *(f'--hash={each}' for each in hashes if each)])
    return pinned(name, package['version'], hashes)


def local(path):
    return path if path.startswith(('./', '../', '/')) else f'./{path}'


# Poetry: https://python-poetry.org/docs/basic-usage/#installing-with-poetrylock


def read_poetry(path):
    lock = load(path)
    packages = lock.get('package', [])
    old_files = lock.get('metadata', {}).get('files', {})
    if all('groups' in package for package in packages):
        chosen = [package for package in packages if in_main(package)]
    else:
        chosen = poetry_reached(packages, load('pyproject.toml'))
    lines = [poetry_line(package, package.get('files') or old_files.get(package['name'], [])) for package in chosen]
    return lines + poetry_root()


def in_main(package):
    """Poetry 2 notes for each package which groups need it, and where."""
    if 'main' not in package['groups'] or package.get('optional'):
        return False
    markers = package.get('markers')
    return applies(markers.get('main') if isinstance(markers, dict) else markers)


def poetry_reached(packages, project):
    """Earlier versions note only who depends on whom."""
    by_name = {}
    for index, package in enumerate(packages):
        by_name.setdefault(canonicalize_name(package['name']), []).append(index)

    def targets(name, dependency, extras):
        for each in dependency if isinstance(dependency, list) else [dependency]:
            each = each if isinstance(each, dict) else {'version': each}
            if not applies(each.get('markers'), extras) or not python_fits(each.get('python')):
                continue
            if each.get('optional') and not optional_wanted(name, extras):
                continue
            for index in by_name.get(canonicalize_name(name), []):
                if version_fits(packages[index]['version'], each.get('version')):
                    yield index, each.get('extras', [])

    def optional_wanted(name, extras):
        return canonicalize_name(name) in extras

    def edges(index, extras):
        package = packages[index]
        lists = {key.lower(): value for key, value in package.get('extras', {}).items()}
        wanted = {canonicalize_name(name_in(each)) for extra in extras for each in lists.get(extra.lower(), [])}
        for name, dependency in package.get('dependencies', {}).items():
            yield from targets(name, dependency, {*wanted, *extras})

    poetry = project.get('tool', {}).get('poetry', {})
    main = {name: value for name, value in poetry.get('dependencies', {}).items() if name.lower() != 'python'}
    roots = [found for name, value in main.items() for found in targets(name, value, set())]
    return [packages[index] for index in walk(roots, edges)]


def name_in(requirement):
    return requirement.split(' ')[0].split('[')[0].split('(')[0].strip()


def python_fits(version):
    return version_fits('.'.join(str(part) for part in sys.version_info[:3]), version)


def version_fits(version, text):
    if not text or text == '*':
        return True
    try:
        return any(SpecifierSet(ranged(part)).contains(version, prereleases=True) for part in text.split('||'))
    except InvalidSpecifier:
        return True


def poetry_line(package, files):
    source = package.get('source', {})
    kind = source.get('type')
    if kind == 'git':
        commit = source.get('resolved_reference') or source['reference']
        subfolder = f'#subdirectory={source["subdirectory"]}' if 'subdirectory' in source else ''
        return f'{package["name"]} @ git+{source["url"]}@{commit}{subfolder}'
    if kind == 'directory':
        return f'-e {local(source["url"])}' if package.get('develop') else local(source['url'])
    if kind == 'file':
        return local(source['url'])
    if kind == 'url':
        return f'{package["name"]} @ {source["url"]}'
    return pinned(package['name'], package['version'], [file.get('hash') for file in files])


def poetry_root():
    """Poetry installs the project itself where it is a package."""
    project = load('pyproject.toml')
    poetry = project.get('tool', {}).get('poetry', {})
    name = (project.get('project', {}).get('name') or poetry.get('name') or '').replace('-', '_').lower()
    if poetry.get('package-mode') is False or 'build-system' not in project or not name:
        return []
    is_package = 'packages' in poetry or any(os.path.exists(place) for place in (name, f'src/{name}', f'{name}.py'))
    return ['-e .'] if is_package else []


def ranged(text):
    """Writes Poetry's ranges as version specifiers of PEP 440."""
    clauses = [clause.strip() for clause in text.replace('|', ',').split(',') if clause.strip()]
    return ','.join(specifier(clause) for clause in clauses)


def specifier(clause):
    if clause == '*':
        return ''
    if clause[0] not in '^~' or clause.startswith('~='):
        if clause[0].isdigit():
            return f'=={clause}'
        return clause.replace(' ', '')
    base = clause[1:].strip()
    numbers = [int(part) if part.isdigit() else 0 for part in base.split('.')[:3]]
    if clause[0] == '~':
        at = min(len(numbers) - 1, 1)
    else:
        at = next((index for index, number in enumerate(numbers) if number > 0), len(numbers) - 1)
    upper = [*numbers[:at], numbers[at] + 1]
    return f'>={base},<{".".join(str(number) for number in upper)}'


def requirement(name, value):
    """Writes an entry of a Pipfile or of Poetry's dependencies as a requirement; None where it does not apply."""
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        entry = entry if isinstance(entry, dict) else {'version': entry}
        if entry.get('optional') or not applies(entry.get('markers')) or not python_fits(entry.get('python')):
            continue
        named = f'{name}[{",".join(entry["extras"])}]' if entry.get('extras') else name
        if 'git' in entry:
            reference = entry.get('rev') or entry.get('tag') or entry.get('branch') or entry.get('ref')
            return f'{named} @ git+{entry["git"]}{"@" + reference if reference else ""}'
        if 'path' in entry:
            return f'-e {local(entry["path"])}' if entry.get('develop') or entry.get('editable') else local(entry['path'])
        if 'url' in entry or 'file' in entry:
            return f'{named} @ {entry.get("url") or entry["file"]}'
        return f'{named}{ranged(entry.get("version", "*"))}'
    return None


def read_poetry_project(path):
    poetry = load(path)['tool']['poetry']
    entries = [(name, value) for name, value in poetry.get('dependencies', {}).items() if name.lower() != 'python']
    lines = [requirement(name, value) for name, value in entries]
    return [line for line in lines if line] + poetry_root()


# Pipenv: https://pipenv.pypa.io/en/latest/pipfile.html


def read_pipfile(path):
    lines = [requirement(name, value) for name, value in load(path).get('packages', {}).items()]
    return [line for line in lines if line]


def read_pipfile_lock(path):
    with open(path, encoding='utf-8') as file:
        lock = json.load(file)
    lines = []
    for name, entry in lock.get('default', {}).items():
        if not applies(entry.get('markers')):
            continue
        if 'git' in entry:
            lines.append(f'{name} @ git+{entry["git"]}@{entry["ref"]}')
        elif 'path' in entry:
            lines.append(f'-e {local(entry["path"])}' if entry.get('editable') else local(entry['path']))
        elif 'file' in entry:
            lines.append(f'{name} @ {entry["file"]}')
        else:
            version = entry['version']
            if not version.startswith('=='):
                raise Unreadable(f'{name!r} has no exact version')
            lines.append(pinned(name, version.lstrip('='), entry.get('hashes', []), entry.get('extras', ())))
    return lines


# PDM: https://pdm-project.org/latest/usage/lockfile/


def read_pdm(path):
    lock = load(path)
    packages = lock.get('package', [])
    if all('groups' in package for package in packages):
        chosen = [package for package in packages if 'default' in package['groups'] and applies(package.get('marker'))]
    else:
        chosen = pdm_reached(packages)
    old_files = lock.get('metadata', {}).get('files', {})
    lines = {}
    for package in chosen:
        # An entry with extras repeats the one without, with what the extras need.
        files = package.get('files') or old_files.get(f'{package["name"]} {package.get("version")}', [])
        lines.setdefault(package['name'], pdm_line(package, files))
    return list(lines.values())


def pdm_reached(packages):
    """Earlier versions note only who depends on whom."""
    by_name = {}
    for index, package in enumerate(packages):
        by_name.setdefault(canonicalize_name(package['name']), []).append(index)

    def targets(texts, asked):
        for text in texts:
            wanted = Requirement(text)
            if not applies(str(wanted.marker or ''), asked):
                continue
            for index in by_name.get(canonicalize_name(wanted.name), []):
                if not wanted.extras or set(packages[index].get('extras', [])) <= wanted.extras:
                    yield index, wanted.extras

    roots = targets(load('pyproject.toml').get('project', {}).get('dependencies', []), set())
    return [packages[index] for index in walk(roots, lambda index, asked: targets(packages[index].get('dependencies', []), asked))]


def pdm_line(package, files):
    name = package['name']
    if 'git' in package:
        return f'{name} @ git+{package["git"]}@{package["revision"]}'
    if 'path' in package:
        return f'-e {local(package["path"])}' if package.get('editable') else local(package['path'])
    if 'url' in package:
        return f'{name} @ {package["url"]}'
    return pinned(name, package['version'], [file.get('hash') for file in files])


if __name__ == '__main__':
    main(sys.argv[1])
