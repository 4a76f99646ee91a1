import type { Command } from '../../../platform/command.ts'
import { env } from './install.ts'
import type { Modules } from './modules.ts'
import type { Served } from './servers.ts'

export interface Django {
  /** The folder of `manage.py`, from the app's; empty for the app's own. */
  readonly folder: string
  /** How it is served; null when no module for that is named. */
  readonly served: Served | null
  readonly build: readonly Command[]
  readonly notes: readonly string[]
}

/** Finds the Django project of an app by its `manage.py`, at the top or one folder below. */
export function findDjango(modules: Modules, packages: ReadonlySet<string>): Django | null {
  const managers = modules.paths.filter((path) => /^(?:[\w-]+\/)?manage\.py$/.test(path)).sort(byDepth)
  for (const manager of managers) {
    const folder = manager.slice(0, -'manage.py'.length)
    const code = modules.at(manager)?.code ?? ''
    const [, settings] = /DJANGO_SETTINGS_MODULE["']\s*,\s*["']([A-Za-z_][\w.]*)["']/.exec(code) ?? []
    if (settings !== undefined) return project(modules, packages, folder, settings)
  }
  return null
}

function project(modules: Modules, packages: ReadonlySet<string>, folder: string, settings: string): Django {
  const code = settingsCode(modules, folder, settings)
  const [top = ''] = settings.split('.')
  const exists = (module: string) => modules.paths.includes(`${folder}${module.replaceAll('.', '/')}.py`)
  const named = (name: string) => {
    const [, module, attribute = ''] =
      new RegExp(`^${name}[ \\t]*=[ \\t]*["']([\\w.]+)\\.(\\w+)["']`, 'm').exec(code) ?? []
    return module === undefined ? undefined : { module, name: attribute }
  }
  const usual = (kind: string) =>
    exists(`${top}.${kind}`) ? { module: `${top}.${kind}`, name: 'application' } : undefined
  const isAsync = ['channels', 'daphne'].some(
    (name) => packages.has(name) || code.includes(`"${name}"`) || code.includes(`'${name}'`),
  )
  const asgi = named('ASGI_APPLICATION') ?? usual('asgi')
  const wsgi = named('WSGI_APPLICATION') ?? usual('wsgi')
  const speaks = (isAsync && asgi !== undefined) || wsgi === undefined ? 'asgi' : 'wsgi'
  const target = speaks === 'asgi' ? asgi : wsgi
  return {
    folder,
    served:
      target === undefined
        ? null
        : { ...target, folder: folder.slice(0, -1), isFactory: false, framework: { name: 'Django', speaks } },
    build: /^[ \t]*STATIC_ROOT[ \t]*=/m.test(code) ? [manage(folder, 'collectstatic', '--noinput')] : [],
    notes: notesOf({ code, folder, settings, packages }),
  }
}

const manage = (folder: string, ...words: string[]): Command => ({
  argv: ['python', `${folder}manage.py`, ...words],
  env,
})

/** Returns the code of the settings, and of the modules of their package, which import each other. */
function settingsCode(modules: Modules, folder: string, settings: string): string {
  const path = `${folder}${settings.replaceAll('.', '/')}`
  const parent = path.slice(0, path.lastIndexOf('/'))
  const isSplit = parent.endsWith('/settings') || modules.paths.includes(`${path}/__init__.py`)
  const around = isSplit ? (parent.endsWith('/settings') ? parent : path) : undefined
  const files = modules.paths.filter(
    (file) => file === `${path}.py` || (around !== undefined && file.startsWith(`${around}/`)),
  )
  return files.map((file) => modules.at(file)?.code ?? '').join('\n')
}

function notesOf(facts: {
  readonly code: string
  readonly folder: string
  readonly settings: string
  readonly packages: ReadonlySet<string>
}): string[] {
  const { code, folder, settings, packages } = facts
  const notes = [
    `Migrations of the database are not run by themselves: add "release: python ${folder}manage.py migrate" to a Procfile, beside a "web:" line.`,
  ]
  if (/^[ \t]*STATIC_ROOT[ \t]*=/m.test(code)) {
    notes.push('STATIC_ROOT is set, so that the build collects the static files ("manage.py collectstatic").')
    if (!packages.has('whitenoise') && !packages.has('dj-static')) {
      notes.push('warning: Django serves no static files in production: add WhiteNoise, or keep them elsewhere.')
    }
  }
  if (/^DEBUG[ \t]*=[ \t]*True\b/m.test(code)) {
    notes.push(
      `warning: DEBUG is True in ${settings}: pages of errors show code and settings to every visitor. Set it to False.`,
    )
  }
  if (/^ALLOWED_HOSTS[ \t]*=[ \t]*\[\s*\]/m.test(code)) {
    notes.push(
      `warning: ALLOWED_HOSTS is empty in ${settings}: Django answers 400 to every name but localhost. Add the app's.`,
    )
  }
  return notes
}

const byDepth = (a: string, b: string): number => a.split('/').length - b.split('/').length || (a < b ? -1 : 1)
