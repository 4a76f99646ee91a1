import { describe, test } from 'vitest'
import { createQueueNotes } from '../../../../server/src/features/deployments/release-log.ts'
import { commandsIn, run, running } from '../../../harness/action/step/run.ts'
import { type Answer, APP, created, KEY, logOf, page, refusal, seen } from '../../../harness/action/support.ts'
import { deploymentRow } from '../../../harness/deployment-row.ts'

describe.concurrent('secrets', () => {
  test('are masked: the key first, long values once the address is known', async ({ expect, signal }) => {
    const inputs = { 'env-vars': `TOKEN=hunter2hunter2\nDEBUG=true\nURL=${APP}\nPEM="-----BEGIN-----\nMIIEvQ"` }
    const { stdout } = await run(running, { signal, inputs })
    expect(stdout.startsWith(`::add-mask::${KEY}\n`)).toBe(true)
    expect(commandsIn(stdout)).toEqual([KEY, 'hunter2hunter2', '-----BEGIN-----'].map((text) => `::add-mask::${text}`))
    expect(stdout.match(/hunter2hunter2/g)).toHaveLength(1)
  })

  test('are masked before a refusal is shown, and so is a malformed key', async ({ expect, signal }) => {
    const create = refusal(400, 'invalid_request', 'no hunter2hunter2')
    const inputs = { 'env-vars': 'TOKEN=hunter2hunter2' }
    const refused = await run({ create }, { signal, inputs })
    expect(commandsIn(refused.stdout).map((line) => line.split('::')[1])).toEqual([
      'add-mask',
      'add-mask',
      'error title=Fairlead',
    ])
    const { stdout } = await run({ create }, { signal, inputs: { 'api-key': 'two words' } })
    expect(stdout.startsWith('::add-mask::two words\n')).toBe(true)
    expect(stdout.match(/two words/g)).toHaveLength(1)
  })
})

describe.concurrent('the build’s log', () => {
  test('appears in a group as it grows, and costs one request', async ({ expect, signal }) => {
    const log = logOf(['installing', '::error::no', '##[error]no', 'built'])
    const result = await run({ create: created, log, polls: seen('running') }, { signal })
    expect(result.code).toBe(0)
    expect(result.stdout).toMatch(
      /::group::Build log\n::stop-commands::(.+)\ninstalling\n[\s\S]*built\n::\1::\n::endgroup::/,
    )
    expect(commandsIn(result.stdout)).toEqual([`::add-mask::${KEY}`, '::group::Build log', '::endgroup::'])
    expect(result.requests.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET'])
  })

  test('has the reasons for waiting before it, outside the group', async ({ expect, signal }) => {
    const lines: string[] = []
    const output = { write: async (line: string) => void lines.push(line.trimEnd()) }
    const notes = createQueueNotes({ noteBuildsBefore: async () => undefined }, deploymentRow(), output as never)
    notes.note(2)
    notes.note(1)
    await notes.settle()
    const log = [logOf([...lines.slice(0, 1)], 'drop'), logOf([...lines.slice(1), 'installing'], 'end', 2)]
    const polls = [seen('building'), seen('running')]
    const { stdout } = await run({ create: created, log, polls }, { signal })
    const shown = stdout.slice(stdout.indexOf('building'))
    expect(shown.split('\n').slice(1, 4)).toEqual([
      expect.stringMatching(/^Waiting for a build slot: 2 builds are ahead\. · \d+ s$/),
      expect.stringMatching(/^Waiting for a build slot: 1 build is ahead\. · \d+ s$/),
      '::group::Build log',
    ])
  })

  test('resumes where the connection broke', async ({ expect, signal }) => {
    const log = [logOf(['one', 'two'], 'drop'), 'drop', logOf(['three'], 'end', 3)] as const
    const result = await run(
      { create: created, log, polls: [seen('building'), seen('building'), seen('running')] },
      { signal },
    )
    expect(result.code).toBe(0)
    const lines = result.stdout.split('\n').filter((line) => /^(one|two|three)$/.test(line))
    expect(lines).toEqual(['one', 'two', 'three'])
    const ids = result.requests.flatMap(({ path, headers }) =>
      path?.includes('/logs') ? [headers['last-event-id']] : [],
    )
    expect(ids).toEqual([undefined, '2', '2'])
  })

  test.for<[string, Answer]>([
    ['is refused', refusal(403, 'forbidden', 'x')],
    ['is not a stream', { status: 200, body: 'x', headers: { 'content-type': 'text/plain' } }],
    ['is a page', page(200)],
  ])('that %s is requested once, and the state is polled', async ([, log], { expect, signal }) => {
    const polls = [seen('building'), seen('building'), seen('running')]
    const result = await run({ create: created, log, polls }, { signal })
    expect(result).toMatchObject({ code: 0, outputs: { status: 'running' } })
    expect(result.count('log')).toBe(1)
  })

  test('with garbage breaks nothing', async ({ expect, signal }) => {
    const events = 'data\n\ndata: {\n\ndata: null\n\ndata: 1\n\ndata: {"text":1}\n\n\u0000\n: \nevent: x\n\n'
    const result = await run({ create: created, log: { events, after: 'end' }, polls: seen('running') }, { signal })
    expect(result).toMatchObject({ code: 0, stderr: '' })
  })
})
