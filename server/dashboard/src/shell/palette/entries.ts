import type { ResponseBody } from '@fairlead/server/client'
import { newDialog } from '../../ui/dialogs/use-linked-dialog.ts'

export type Found = ResponseBody<'account.search'>['found'][number]

/** A page to open, or an action: a page with an open dialog. */
export interface Entry {
  /** Its heading in the list. */
  readonly group: string
  readonly label: string
  /** Its project, if that is not clear. */
  readonly detail?: string
  readonly path: string
}

const groups = { project: 'Projects', app: 'Apps', database: 'Databases', storage: 'Storage' } as const

/** Returns the entry of a search result. */
export function entryOf({ kind, id, name, project_id, project_name }: Found): Entry {
  const project = `/projects/${project_id}`
  const path = {
    project,
    app: `${project}/apps/${id}`,
    database: `${project}/databases/${id}`,
    storage: `${project}/storage`,
  }[kind]
  return { group: groups[kind], label: name, path, ...(kind !== 'project' && { detail: project_name }) }
}

const ofAccount: readonly Entry[] = [
  { group: 'Actions', label: 'New project', path: `/projects#${newDialog}` },
  { group: 'Actions', label: 'Create new key', path: `/settings/api-keys#${newDialog}` },
  { group: 'Actions', label: 'Upload a certificate', path: `/settings/certificates#${newDialog}` },
  { group: 'Actions', label: 'New webhook endpoint', path: `/webhooks#${newDialog}` },
  { group: 'Pages', label: 'Projects', path: '/projects' },
  { group: 'Pages', label: 'Webhooks', path: '/webhooks' },
  { group: 'Pages', label: 'Get started', path: '/get-started' },
  { group: 'Pages', label: 'API Keys', path: '/settings/api-keys' },
  { group: 'Pages', label: 'Certificates', path: '/settings/certificates' },
  { group: 'Pages', label: 'Sessions', path: '/settings/sessions' },
  { group: 'Pages', label: 'Account and usage', path: '/settings/account' },
  { group: 'Pages', label: 'Audit log', path: '/settings/audit-log' },
]

const ofProject: readonly (readonly [label: string, path: string])[] = [
  ['Deploy', `/deployments#${newDialog}`],
  ['New database', `/databases#${newDialog}`],
  ['Overview', ''],
  ['Deployments', '/deployments'],
  ['Databases', '/databases'],
  ['Storage', '/storage'],
  ['Trust', '/trust'],
  ['Project settings', '/settings'],
]

const ofApp: readonly (readonly [label: string, path: string])[] = [
  ['Releases', ''],
  ['Logs', '/logs'],
  ['Metrics', '/metrics'],
  ['Variables', '/variables'],
  ['Domains', '/domains'],
  ['Processes', '/processes'],
  ['Schedules', '/schedules'],
  ['Run a command or a terminal', '/run'],
  ['App settings', '/settings'],
]

/** Returns the entries that need no request, of the page's app and project first. */
export function entriesOfPage({ projectId, appId }: { readonly projectId?: string; readonly appId?: string }): Entry[] {
  const project = `/projects/${projectId}`
  const below = (group: string, base: string, all: typeof ofProject) =>
    all.map(([label, path]): Entry => ({ group, label, path: base + path }))
  return [
    ...(projectId === undefined || appId === undefined ? [] : below('This app', `${project}/apps/${appId}`, ofApp)),
    ...(projectId === undefined ? [] : below('This project', project, ofProject)),
    ...ofAccount,
  ]
}

/** Returns the entries that contain each word of a text. In each group, entries whose name has all words come first. */
export function matching(entries: readonly Entry[], text: string): Entry[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const hasAll = (searched: string) => words.every((word) => searched.toLowerCase().includes(word))
  const rank = ({ label }: Entry) => (hasAll(label) ? 0 : 1)
  const order = [...new Set(entries.map(({ group }) => group))]
  return entries
    .filter(({ group, label, detail = '' }) => hasAll(`${label}\n${detail}\n${group}`))
    .sort((one, other) => order.indexOf(one.group) - order.indexOf(other.group) || rank(one) - rank(other))
}
