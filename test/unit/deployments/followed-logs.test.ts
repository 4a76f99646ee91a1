import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLogs, type LogsDependencies } from '../../../server/src/features/deployments/logs.ts'
import type { DeploymentRow } from '../../../server/src/features/deployments/tables.ts'

type Store = LogsDependencies['logs']
type FakeRow = Pick<DeploymentRow, 'id' | 'status' | 'variables'>

const ids = ['dep_00000000000000000000000000', 'dep_00000000000000000000000001'] as const
const project = { id: 'proj_1', accountId: 'acct_1' } as Parameters<ReturnType<typeof createLogs>['follow']>[0]

/** Logs of invented releases; the variables of a release are its only secrets. */
function logsOf(rows: () => readonly FakeRow[], read: Store['read']) {
  const all = () => rows().map((row) => ({ ...row, app_id: 'app_1', generation: 1 }))
  return createLogs({
    store: {
      ofProjects: { get: async () => all()[0] },
      releases: { recent: async () => all() },
      rows: { find: async () => all()[0] },
    },
    secrets: { valuesOf: ({ variables }: DeploymentRow) => [variables.toString()] },
    logs: {
      find: async (_log: unknown, { lines }: { readonly lines: number }) => ({
        position: lines === 0 ? 1 : 0,
        lines: Math.min(lines, 1),
        end: 1,
      }),
      read,
      processes: async () => [],
    },
    mostFollowers: async () => 10,
    stopping: new AbortController().signal,
  } as unknown as LogsDependencies)
}

/** Follows a log until an event contains the text. Returns all events until then. */
async function follow(
  logs: ReturnType<typeof createLogs>,
  how: 'follow' | 'followApp',
  { lastEventId, until }: { readonly lastEventId?: string | undefined; readonly until: readonly (() => string)[] },
): Promise<string> {
  const gone = new AbortController()
  const follower = { signal: gone.signal, mayGoOn: async () => true }
  const wanted = { tail: 10, timestamps: false, processes: false, stream: 'runtime', lastEventId } as const
  const { body } = await logs[how](project, ids[0], wanted, follower)
  let seen = ''
  const events = (body as AsyncIterable<string>)[Symbol.asyncIterator]()
  for (const next of until) {
    const text = next()
    for (;;) {
      const { done, value } = await events.next()
      if (done === true) throw new Error('the stream has ended')
      seen += value
      if (value.includes(text)) break
    }
  }
  gone.abort()
  await events.return?.()
  return seen
}

describe('a followed log', () => {
  it.each(['follow', 'followApp'] as const)('masks a password that is rotated during the read: %s', async (how) => {
    let password = 'the old password'
    const row = () => ({ id: ids[0], status: 'running' as const, variables: Buffer.from(password) })
    const logs = logsOf(
      () => [row()],
      async (_log, { from, masker }) => {
        await setImmediate()
        const text = masker.mask('the old password, the new password')
        return { lines: [{ at: null, noted: 0, text, end: from + 1 }], next: from + 1 }
      },
    )
    const rotate = () => {
      password = 'the new password'
      return 'the old password, ***'
    }
    expect(await follow(logs, how, { until: [() => '***, the new password', rotate] })).toContain('***')
  })

  it('continues without reading the log of a later deployment that has failed again', async () => {
    const lines: Record<string, string[]> = { [ids[0]]: ['serves'], [ids[1]]: ['fails'] }
    let pauses = 0
    const variables = Buffer.from('a secret')
    const logs = logsOf(
      () => [
        { id: ids[0], status: 'running', variables },
        { id: ids[1], status: 'failed', variables },
      ],
      async ({ deploymentId }, { from }) => {
        const isQuiet = deploymentId === ids[0] && pauses-- > 0
        const text = isQuiet ? undefined : lines[deploymentId]?.[from]
        return text === undefined
          ? { lines: [], next: from }
          : { lines: [{ at: null, noted: 0, text, end: from + 1 }], next: from + 1 }
      },
    )
    const print = (text: string) => () => {
      lines[ids[0]]?.push(text)
      return text
    }
    const seen = await follow(logs, 'followApp', { until: [() => 'fails', print('later')] })
    const lastEventId = seen
      .match(/^id: .*$/gm)
      ?.at(-1)
      ?.slice('id: '.length)
    // All logs are read once before the next line is written.
    pauses = 1
    expect(await follow(logs, 'followApp', { lastEventId, until: [print('at last')] })).not.toContain('fails')
  })
})
