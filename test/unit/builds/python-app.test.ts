import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readRange } from '../../../server/src/builds/detectors/python/versions.ts'
import { type Files, failure, planned, planOf } from '../../harness/builds/planned.ts'

const flask = 'from flask import Flask\napp = Flask(__name__)\n'
const fastapi = 'from fastapi import FastAPI\napp = FastAPI()\n'

/** The words of the command that serves the app. */
const served = (files: Files): string => {
  const { start } = planned(files)
  return start[0] === '/bin/sh' ? start.slice(4).join(' ') : start.join(' ')
}
const gunicorn = (target: string, more = '') => `gunicorn --threads 8 ${more}${target}`

function notesOf(files: Files): string {
  const result = planOf(files)
  return result.ok ? (result.plan.notes ?? []).join('\n') : ''
}

describe('the application of a Python app', () => {
  test.each<[string, Files, string]>([
    ['Flask in app.py', { 'app.py': flask }, gunicorn('app:app')],
    ['Flask by its module', { 'main.py': 'import flask\nserver = flask.Flask(__name__)' }, gunicorn('main:server')],
    ['Flask under another name', { 'app.py': 'import flask as f\nweb = f.Flask("x")' }, gunicorn('app:web')],
    ['a star import', { 'app.py': 'from flask import *\napp = Flask(__name__)' }, gunicorn('app:app')],
    ['a file with its own name', { 'hello.py': flask, 'requirements.txt': 'flask' }, gunicorn('hello:app')],
    ['a type annotation', { 'main.py': 'from fastapi import FastAPI\napp: FastAPI = FastAPI(\n)' }, 'uvicorn main:app'],
    ['Windows line ends', { 'main.py': fastapi.replaceAll('\n', '\r\n') }, 'uvicorn main:app'],
    ['FastAPI in src', { 'src/main.py': fastapi }, 'uvicorn --app-dir src main:app'],
    ['FastAPI in a package', { 'app/__init__.py': '', 'app/main.py': fastapi }, 'uvicorn app.main:app'],
    [
      'a folder that its imports make a package',
      { 'backend/main.py': `from backend.db import x\n${fastapi}`, 'requirements.txt': '' },
      'uvicorn backend.main:app',
    ],
    [
      'a package in src',
      { 'src/shop/__init__.py': '', 'src/shop/main.py': fastapi, 'pyproject.toml': '' },
      'uvicorn --app-dir src shop.main:app',
    ],
    [
      'a folder that is not a package',
      { 'api/main.py': `from routers import x\n${fastapi}`, 'requirements.txt': '' },
      'uvicorn --app-dir api main:app',
    ],
    ['a wrapped application', { 'main.py': `${fastapi}app = CORS(app)\nother = 1` }, 'uvicorn main:app'],
    [
      'a factory in a package',
      {
        'shop/__init__.py':
          'from flask import Flask\ndef create_app(config=None):\n    app = Flask(__name__)\n    return app',
        'requirements.txt': 'flask',
      },
      gunicorn('shop:create_app()'),
    ],
    [
      'a factory for FastAPI',
      { 'main.py': 'from fastapi import FastAPI\ndef create_app() -> FastAPI:\n    return FastAPI()\n' },
      'uvicorn --factory main:create_app',
    ],
    [
      'a factory that is called elsewhere',
      {
        'app/__init__.py': 'def create_app(settings):\n    from flask import Flask\n    return Flask(__name__)\n',
        'wsgi.py': 'from app import create_app\n\napplication = create_app("production")\n',
      },
      gunicorn('wsgi:application'),
    ],
    [
      'a factory whose framework only the packages show',
      {
        'wsgi.py': 'from shop import make\napp = make()\n',
        'shop.py': 'def make():\n    return build()\n',
        'requirements.txt': 'Flask==3',
      },
      gunicorn('wsgi:app'),
    ],
    [
      'an imported application',
      {
        'main.py': 'from app.api import app\nif __name__ == "__main__":\n    import uvicorn\n    uvicorn.run(app)',
        'app/api.py': fastapi,
        'app/__init__.py': '',
      },
      'uvicorn main:app',
    ],
    [
      'the application that the file passes to uvicorn',
      {
        'run.py': 'import uvicorn\nif __name__ == "__main__":\n    uvicorn.run("shop.web:api", reload=True)',
        'shop/web.py': 'from fastapi import FastAPI\napi = FastAPI()',
        'shop/__init__.py': '',
      },
      'uvicorn shop.web:api',
    ],
    [
      'Socket.IO around FastAPI',
      {
        'main.py': `import socketio\n${fastapi}sio = socketio.AsyncServer()\nasgi_app = socketio.ASGIApp(sio, app)\nif __name__ == "__main__":\n    uvicorn.run(asgi_app)`,
      },
      'uvicorn main:asgi_app',
    ],
    [
      '.flaskenv',
      { '.flaskenv': 'FLASK_APP=microblog.py', 'microblog.py': flask, 'other.py': flask },
      gunicorn('microblog:app'),
    ],
    [
      'Dash',
      { 'app.py': 'from dash import Dash\napp = Dash(__name__)\nserver = app.server\n' },
      gunicorn('app:server'),
    ],
    ['Starlette', { 'main.py': 'from starlette.applications import Starlette\napp = Starlette()' }, 'uvicorn main:app'],
    ['Litestar', { 'app.py': 'from litestar import Litestar\napp = Litestar([])' }, 'uvicorn app:app'],
    ['Quart', { 'app.py': 'from quart import Quart\napp = Quart(__name__)' }, 'uvicorn app:app'],
    ['Bottle', { 'app.py': 'import bottle\napp = bottle.default_app()' }, gunicorn('app:app')],
    ['Falcon', { 'app.py': 'import falcon.asgi\napp = falcon.asgi.App()' }, 'uvicorn app:app'],
    ['Sanic', { 'server.py': 'from sanic import Sanic\napp = Sanic("x")' }, 'sanic server:app --single-process'],
    [
      'aiohttp',
      {
        'main.py': 'from aiohttp import web\napp = web.Application()\nif __name__ == "__main__":\n    web.run_app(app)',
      },
      'gunicorn --worker-class aiohttp.GunicornWebWorker main:app',
    ],
    [
      'plain WSGI',
      { 'wsgi.py': 'def application(environ, start_response):\n    return []' },
      gunicorn('wsgi:application'),
    ],
    ['plain ASGI', { 'asgi.py': 'async def app(scope, receive, send):\n    pass' }, 'uvicorn asgi:app'],
    [
      'Streamlit',
      { 'app.py': 'import streamlit as st\nst.write(1)', 'requirements.txt': 'streamlit' },
      'streamlit run app.py --server.headless true --browser.gatherUsageStats false',
    ],
    ['a gunicorn.conf.py', { 'app.py': flask, 'gunicorn.conf.py': 'workers = 2' }, 'gunicorn app:app'],
  ])('is found: %s', (_, files, command) => {
    expect(served(files)).toBe(command)
  })

  test.each<[string, Files, string]>([
    ['its name in a text', { 'main.py': '"""\napp = Flask(__name__)\n"""\nserve()' }, 'python main.py'],
    ['its name in a comment', { 'main.py': 'from flask import Flask\n# app = Flask(__name__)\n' }, 'python main.py'],
    ['a class of the same name from elsewhere', { 'app.py': 'from mine import Flask\napp = Flask()' }, 'python app.py'],
    ['its own server', { 'main.py': 'import os\nlisten(os.environ["PORT"])', 'lib/app.py': flask }, 'python main.py'],
    ['a top-level uvicorn.run', { 'main.py': `import uvicorn\n${fastapi}uvicorn.run(app)` }, 'python main.py'],
  ])('is not taken from %s', (_, files, command) => {
    expect(served(files)).toBe(command)
  })

  test('listens where the gateway reaches it, trusts the gateway’s headers, and never starts a server from its module', () => {
    const result = planOf({ 'app.py': `${flask}app.run(debug=True)\n` })
    expect(result.ok && result.plan.start).toEqual({
      argv: ['/bin/sh', '-c', 'exec "$@" --bind "127.0.0.1:$PORT"', 'sh', 'gunicorn', '--threads', '8', 'app:app'],
      env: { PYTHONUNBUFFERED: '1', FORWARDED_ALLOW_IPS: '*', FLASK_RUN_FROM_CLI: 'true' },
    })
  })

  test('runs on the server that the repository requires, otherwise on a fixed version, and the log says so', () => {
    const pinned = "gunicorn==26.2.0; python_version >= '3.10'"
    const own = (requirements: string) =>
      planned({ 'app.py': flask, 'requirements.txt': requirements }).build.join('\n')
    expect(own('flask')).toContain(pinned)
    for (const listed of ['gunicorn', 'Gunicorn[gevent]==21', '# x\n  gunicorn>=20 ; python_version > "3"']) {
      expect(own(listed)).not.toContain('gunicorn==')
    }
    const standard = planned({ 'main.py': fastapi, 'requirements.txt': 'fastapi[standard]>=0.115' })
    expect(standard.build.join('\n')).not.toContain('uvicorn')
    const notes = notesOf({ 'app.py': flask, 'requirements.txt': 'flask' })
    expect(notes).toContain('gunicorn serves "app" of app.py (Flask): gunicorn --threads 8 app:app.')
    expect(notes).toContain('gunicorn==26.2.0 is installed beside them')
    expect(notes).toContain('fairlead.json')
  })

  test('refuses a development server that would start on import', () => {
    const main = 'import asyncio\nfrom quart import Quart\napp = Quart(__name__)\napp.run(debug=True)\n'
    expect(failure({ 'main.py': main })).toMatchObject({
      code: 'no_start',
      message: expect.stringMatching(/main\.py starts a development server \(debug=True\).*Procfile/),
    })
  })

  test('lists several candidates, so that the owner can choose', () => {
    const message = failure({ 'one.py': flask, 'two.py': flask, 'requirements.txt': 'flask' })?.message
    expect(message).toContain('one.py, two.py')
    expect(message).toContain('gunicorn one:app')
  })
})

describe('a Django project', () => {
  const manage = 'import os\nos.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")\n'
  const settings = "DEBUG = False\nALLOWED_HOSTS = ['*']\nWSGI_APPLICATION = 'mysite.wsgi.application'\n"
  const site = {
    'manage.py': manage,
    'mysite/settings.py': settings,
    'mysite/wsgi.py': '',
    'requirements.txt': 'django',
  }

  test('is served by its WSGI module, with advice on migrations', () => {
    expect(served(site)).toBe(gunicorn('mysite.wsgi:application'))
    expect(notesOf(site)).toContain('release: python manage.py migrate')
  })

  test('collects its static files where STATIC_ROOT is set, in any file of its settings', () => {
    const collect = 'python manage.py collectstatic --noinput'
    expect(planned(site).build).not.toContain(collect)
    const single = { ...site, 'mysite/settings.py': `${settings}STATIC_ROOT = BASE_DIR / "static"\n` }
    expect(planned(single).build.at(-1)).toBe(collect)
    expect(notesOf(single)).toContain('WhiteNoise')
    const split = {
      ...site,
      'manage.py': manage.replace('mysite.settings', 'mysite.settings.production'),
      'mysite/settings/base.py': `${settings}STATIC_ROOT = "x"\n`,
      'mysite/settings/production.py': 'from .base import *',
    }
    expect(planned(split).build.at(-1)).toBe(collect)
    expect(planned({ ...single, Procfile: 'web: gunicorn mysite.wsgi' }).build.at(-1)).toBe(collect)
  })

  test('in a subfolder is served from the subfolder', () => {
    const files = { 'backend/manage.py': manage, 'backend/mysite/settings.py': settings, 'requirements.txt': 'django' }
    expect(served(files)).toBe(gunicorn('mysite.wsgi:application', '--pythonpath backend '))
    expect(notesOf(files)).toContain('python backend/manage.py migrate')
  })

  test('with Channels is served by its ASGI module', () => {
    const files = {
      ...site,
      'mysite/settings.py': `${settings}INSTALLED_APPS = ['channels']\nASGI_APPLICATION = 'mysite.asgi.application'\n`,
    }
    expect(served(files)).toBe('uvicorn mysite.asgi:application')
    expect(served({ ...files, 'requirements.txt': 'django\ndaphne' })).toBe('daphne mysite.asgi:application')
  })

  test('gets a warning when it shows code to visitors, or allows no host', () => {
    const notes = notesOf({ ...site, 'mysite/settings.py': 'DEBUG = True\nALLOWED_HOSTS = []\n' })
    expect(notes).toContain('DEBUG is True in mysite.settings')
    expect(notes).toContain('ALLOWED_HOSTS is empty')
  })
})

describe('the packages of a Python app', () => {
  const program = { 'main.py': 'serve()' }
  test.each<[string, Files, string]>([
    ['uv.lock', { 'uv.lock': '', 'pyproject.toml': '' }, 'fairlead-python-lock uv.lock'],
    ['poetry.lock', { 'poetry.lock': '', 'requirements.txt': 'x' }, 'fairlead-python-lock poetry.lock'],
    ['pdm.lock', { 'pdm.lock': '' }, 'fairlead-python-lock pdm.lock'],
    ['Pipfile.lock', { 'Pipfile.lock': '', Pipfile: '' }, 'fairlead-python-lock Pipfile.lock'],
    ['only a Pipfile', { Pipfile: '[packages]' }, 'fairlead-python-lock Pipfile'],
    [
      'Poetry without a lock',
      { 'pyproject.toml': '[tool.poetry]\n[build-system]' },
      'fairlead-python-lock pyproject.toml',
    ],
    ['setup.py', { 'setup.py': '' }, '.venv/bin/python -m pip install --no-input .'],
    [
      'requirements for production',
      {
        'requirements/production.txt': '-r base.txt',
        'requirements/base.txt': 'x',
        'pyproject.toml': '[build-system]',
      },
      '.venv/bin/python -m pip install --no-input -r requirements/production.txt',
    ],
  ])('are installed from %s', (_, files, command) => {
    expect(planned({ ...program, ...files }).build.at(-1)).toBe(command)
  })
})

describe('the version of Python', () => {
  const there = new Map([
    ['python3', '3.11.2'],
    ['python3.9', '3.9.2'],
    ['python3.11', '3.11.2'],
    ['python3.13', '3.13.5'],
  ])
  const venv = (files: Files) => {
    const result = planOf({ 'main.py': '', ...files }, { versions: there })
    return result.ok ? result.plan.build[0]?.argv[0] : `${result.failure.code}: ${result.failure.message}`
  }

  test.each<[string, Files, string]>([
    ['nothing', {}, 'python3'],
    ['.python-version', { '.python-version': '3.13\n' }, 'python3.13'],
    ['.python-version with a patch', { '.python-version': '# pyenv\n3.11.4\n' }, 'python3'],
    ['runtime.txt', { 'runtime.txt': 'python-3.9.18' }, 'python3.9'],
    ['.tool-versions', { '.tool-versions': 'nodejs 20\npython 3.13.1\n' }, 'python3.13'],
    ['a Pipfile', { Pipfile: '[requires]\npython_version = "3.9"' }, 'python3.9'],
    [
      'requires-python that allows the default version',
      { 'pyproject.toml': '[project]\nrequires-python = ">= 3.9, < 4"' },
      'python3',
    ],
    ['requires-python above it', { 'pyproject.toml': '[project]\nrequires-python = ">=3.12"' }, 'python3.13'],
    ['Poetry', { 'pyproject.toml': '[tool.poetry.dependencies]\npython = "~3.9"' }, 'python3.9'],
    ['a text that is not a version', { '.python-version': 'pypy3.10-nightly' }, 'python3'],
  ])('is the version that %s asks for', (_, files, program) => {
    expect(venv(files)).toBe(program)
  })

  const project = (range: string) => `[project]\nrequires-python = "${range}"`
  const poetry = (range: string) => `[tool.poetry.dependencies]\npython = "${range}"`
  const bookworm = new Map([['python3', '3.11.2']])
  /** Each names a version that the machine lacks, in a separate file. */
  const pins: Record<string, (version: string) => Files> = {
    '.python-version': (version) => ({ '.python-version': version }),
    'runtime.txt': (version) => ({ 'runtime.txt': `python-${version}` }),
    '.tool-versions': (version) => ({ '.tool-versions': `python ${version}` }),
    Pipfile: (version) => ({ Pipfile: `[requires]\npython_version = "${version}"` }),
  }
  const pinned = Object.entries(pins).flatMap(([from, pin]) =>
    ['3.12', '3.13.1', '3.10', '3.9.18'].map((version) => [from, version, pin(version)] as const),
  )

  test.each(pinned)(
    'that %s pins to %s gives way to a range that allows the installed version',
    (from, version, files) => {
      for (const text of [project('>=3.9'), project('>=3.9,<3.15'), poetry('^3.9')]) {
        const result = planOf({ 'main.py': '', ...files, 'pyproject.toml': text }, { versions: bookworm })
        expect(result.ok && result.plan.build[0]?.argv[0]).toBe('python3')
        expect(result.ok && result.plan.notes?.[0]).toContain(`${from} asks for Python "${version}"`)
      }
    },
  )

  const refused: (readonly [string, string, Files])[] = [
    ...pinned,
    ...pinned.map(
      ([from, version, files]) => [from, version, { ...files, 'pyproject.toml': project('==3.14.*') }] as const,
    ),
    ...['>=3.12', '==3.13.*', '<3.11', '~=3.14'].map(
      (range) => ['pyproject.toml', range, { 'pyproject.toml': project(range) }] as const,
    ),
    ...['^3.12', '~3.10'].map((range) => ['pyproject.toml', range, { 'pyproject.toml': poetry(range) }] as const),
  ]

  test.each(refused)('that %s asks for as %s is refused with a step that leads to a plan', (from, range, files) => {
    const all = { 'main.py': '', ...files }
    const result = planOf(all, { versions: bookworm })
    const { code, message } = result.ok ? { code: '', message: '' } : result.failure
    expect(code).toBe('unsupported_python')
    expect(message).toContain(`${from} asks for Python "${range}", and the server has 3.11.2.`)
    // Debian has packages only for its default version.
    expect(message).not.toMatch(/apt|venv/)
    const [, line = '', file = ''] = /Write (.*?) in (\S+) if the app runs on that/.exec(message) ?? []
    const heading = /^.*\n/.exec(String(all[file as keyof typeof all]))?.[0] ?? ''
    const changed = planOf({ ...all, [file]: `${heading}${line}` }, { versions: bookworm })
    expect(changed.ok && changed.plan.build[0]?.argv[0]).toBe('python3')
    const [, brought] = /install uv .* it brings Python (3\.\d+)\./.exec(message) ?? []
    const withUv = planOf(
      { ...all, 'requirements.txt': 'flask' },
      { versions: new Map([...bookworm, ['uv', '0.9.2']]) },
    )
    expect(withUv.ok && withUv.plan.build.map(({ argv }) => argv.join(' '))).toEqual([
      `/bin/sh -c UV_PYTHON_PREFERENCE=only-managed UV_PYTHON_INSTALL_DIR="$PWD/.python" exec uv venv --no-project --python ${brought} .venv`,
      '.venv/bin/python -m ensurepip',
      '.venv/bin/python -m pip install --no-input -r requirements.txt',
    ])
  })

  test.each([
    ['>=3.12', '3.12'],
    ['<3.11', '3.10'],
    ['^3.14', '3.14'],
    ['>=3.8,!=3.11.*', '3.12'],
  ])('for %s comes from uv as the nearest allowed version', (range, version) => {
    const files = { 'main.py': '', 'pyproject.toml': poetry(range) }
    const result = planOf(files, { versions: new Map([...bookworm, ['uv', '0.9.2']]) })
    expect(result.ok && result.plan.build[0]?.argv.join(' ')).toContain(`--python ${version} .venv`)
  })

  test('that no Python 3 satisfies is refused without a program that would install it', () => {
    const message = venv({ 'runtime.txt': 'python-2.7.18' })
    expect(message).toContain('Write python-3.11 in runtime.txt')
    expect(message).not.toContain('uv')
  })

  test('is read from ranges of all kinds', () => {
    const minors = (text: string) => [8, 9, 10, 11, 12, 13].filter((minor) => readRange(text)?.([3, minor, 5]))
    expect(minors('>=3.9,!=3.10.*,<3.13')).toEqual([9, 11, 12])
    expect(minors('~=3.11')).toEqual([11, 12, 13])
    expect(minors('~=3.11.2')).toEqual([11])
    expect(minors('^3.12')).toEqual([12, 13])
    expect(minors('<3.9 || ^3.13')).toEqual([8, 13])
    expect(minors('==3.11.*')).toEqual([11])
    expect(minors('>3.11')).toEqual([11, 12, 13])
    expect(minors('<=3.9')).toEqual([8, 9])
    expect(minors('*')).toHaveLength(6)
    expect(readRange('three')).toBeNull()
  })
})

test('plans any text of a module without an exception, in linear time', () => {
  const piece = fc.constantFrom(
    '"""',
    "'''",
    '"',
    "'",
    '\\',
    '#',
    '\n',
    'app',
    ' = ',
    'Flask',
    '(',
    ')',
    'from ',
    'import ',
    '.',
    ',',
    'def ',
    'async ',
    'create_app',
    ' as ',
    '*',
    ':',
    'uvicorn.run(',
    'DJANGO_SETTINGS_MODULE',
    'STATIC_ROOT',
  )
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(piece, { maxLength: 200 }).map((list) => list.join('')),
  )
  const name = fc.constantFrom(
    'app.py',
    'main.py',
    'src/main.py',
    'shop/__init__.py',
    'manage.py',
    'mysite/settings.py',
    'requirements.txt',
    '.python-version',
    'runtime.txt',
    'Pipfile',
    'setup.py',
    '.flaskenv',
  )
  fc.assert(
    fc.property(fc.dictionary(name, text), (files) => {
      const result = planOf(files)
      if (!result.ok) expect(result.failure.message).toMatch(/\.$/)
    }),
    { numRuns: 300 },
  )
  // Excludes the time of other programs on a busy machine.
  const begin = process.threadCpuUsage()
  for (const each of [
    '"""',
    "'",
    'import (',
    'def f(',
    'app: ',
    'from .',
    'app = ',
    '\\',
    'uvicorn.run(app',
    ' ',
    'from a import ',
    '"',
  ])
    planOf({ 'app.py': each.repeat(100_000 / each.length), 'requirements.txt': each.repeat(20_000) })
  expect(process.threadCpuUsage(begin).user / 1_000).toBeLessThan(20_000)
})
