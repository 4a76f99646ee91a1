import type { Command } from '../../../platform/command.ts'
import type { Framework } from './frameworks.ts'

/** A package that serves applications in production, at the version that is installed where the repository has none. */
interface ServerPackage {
  readonly name: string
  /** Words for pip: the newest release for the Pythons that are maintained, and the last one for older ones. */
  readonly pinned: readonly string[]
}

const gunicorn: ServerPackage = {
  name: 'gunicorn',
  pinned: ["gunicorn==26.2.0; python_version >= '3.10'", "gunicorn==23.0.0; python_version < '3.10'"],
}
const uvicorn: ServerPackage = {
  name: 'uvicorn',
  pinned: ["uvicorn==0.54.0; python_version >= '3.10'", "uvicorn==0.33.0; python_version < '3.10'"],
}

/** The application as a server is told it. */
export interface Served {
  /** Such as `shop.main`. */
  readonly module: string
  /** The folder that has to be on the module path; empty for the app's own. */
  readonly folder: string
  readonly name: string
  readonly isFactory: boolean
  readonly framework: Framework
}

export interface Serving {
  readonly start: Command
  /** The command in short, for people: `gunicorn app:app`. */
  readonly shown: string
  /** Words for pip: a server that the repository does not bring; empty when it does. */
  readonly adds: readonly string[]
  readonly server: string
}

/** Packages that bring a server with them under this extra or name. */
const BRINGS: Readonly<Record<string, readonly string[]>> = {
  uvicorn: ['uvicorn', 'fastapi[standard]', 'fastapi[all]', 'fastapi-cli', 'litestar[standard]', 'python-fasthtml'],
  gunicorn: ['gunicorn'],
}

/**
 * Returns the command that serves an application in production, and the package that it needs.
 *
 * @param packages the names of the packages that the repository asks for, with their extras: `fastapi`, `fastapi[standard]`
 * @param hasSettings true when the repository has a `gunicorn.conf.py`
 */
export function serve(app: Served, packages: ReadonlySet<string>, hasSettings: boolean): Serving {
  const { speaks, name } = app.framework
  const target = `${app.module}:${app.name}`
  if (speaks === 'sanic') {
    const argv = ['sanic', ...(app.isFactory ? ['--factory'] : []), target, '--single-process'] as const
    return { ...withAddress(argv, '--host 127.0.0.1 --port "$PORT"', app.folder), adds: [], server: 'sanic' }
  }
  if (speaks === 'asgi') {
    if (name === 'Django' && packages.has('daphne')) {
      return { ...withAddress(['daphne', target], '-b 127.0.0.1 -p "$PORT"', app.folder), adds: [], server: 'daphne' }
    }
    const factory = app.isFactory ? ['--factory'] : []
    const folder = app.folder === '' ? [] : ['--app-dir', app.folder]
    const argv = ['uvicorn', ...factory, ...folder, target] as const
    return {
      ...withAddress(argv, '--host 127.0.0.1 --port "$PORT"'),
      adds: missing(uvicorn, packages),
      server: 'uvicorn',
    }
  }
  // Threads let one process answer several requests; more processes would not fit a small plan (WEB_CONCURRENCY adds them).
  const usual = hasSettings ? [] : ['--threads', '8']
  const workers = speaks === 'aiohttp' ? ['--worker-class', 'aiohttp.GunicornWebWorker'] : usual
  const folder = app.folder === '' ? [] : ['--pythonpath', app.folder]
  // An aiohttp worker calls a function by itself.
  const call = app.isFactory && speaks !== 'aiohttp' ? '()' : ''
  const argv = ['gunicorn', ...workers, ...folder, `${target}${call}`] as const
  return { ...withAddress(argv, '--bind "127.0.0.1:$PORT"'), adds: missing(gunicorn, packages), server: 'gunicorn' }
}

/** Streamlit serves a script of its own kind. */
export function serveStreamlit(file: string): Serving {
  const argv = ['streamlit', 'run', file, '--server.headless', 'true', '--browser.gatherUsageStats', 'false'] as const
  return { ...withAddress(argv, '--server.address 127.0.0.1 --server.port "$PORT"'), adds: [], server: 'streamlit' }
}

function missing({ name, pinned }: ServerPackage, packages: ReadonlySet<string>): readonly string[] {
  return (BRINGS[name] ?? []).some((each) => packages.has(each)) ? [] : pinned
}

/** The options that name the address; constants, since a shell reads them for the variable PORT. */
type Address =
  | '--bind "127.0.0.1:$PORT"'
  | '--host 127.0.0.1 --port "$PORT"'
  | '-b 127.0.0.1 -p "$PORT"'
  | '--server.address 127.0.0.1 --server.port "$PORT"'

/** The shell's line is a constant, and the words of the app are its arguments. */
function withAddress(
  argv: readonly [string, ...string[]],
  address: Address,
  folder = '',
): { readonly start: Command; readonly shown: string } {
  const env = {
    PYTHONUNBUFFERED: '1',
    // Only the gateway reaches the app, and it says how the visitor came.
    FORWARDED_ALLOW_IPS: '*',
    // Flask then ignores an app.run() of the module, which would start its development server.
    FLASK_RUN_FROM_CLI: 'true',
    ...(folder === '' ? {} : { PYTHONPATH: folder }),
  }
  return { start: { argv: ['/bin/sh', '-c', `exec "$@" ${address}`, 'sh', ...argv], env }, shown: argv.join(' ') }
}
