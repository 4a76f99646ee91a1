import { expect, it } from 'vitest'
import type { Detector, Tool } from '../../../server/src/builds/detectors/detector.ts'
import { languagesOf, versionsOf } from '../../../server/src/builds/machine-tools.ts'

const missing = { code: 'missing', message: 'missing' }
const version = { args: ['-c', 'echo 1.2.3'], pattern: /^(\d+\.\d+\.\d+)/m }
const languageOf = async (tool: Partial<Tool>) => {
  const tools: Tool[] = [{ program: 'sh', missing, version, ...tool }]
  const [found] = await languagesOf([{ name: 'shell', tools } as unknown as Detector])
  return found
}

it('a language is available when its program runs', async () => {
  expect(await languageOf({})).toEqual({ name: 'shell', there: ['sh 1.2.3'], missing: [] })
})

it.each<[string, Partial<Tool>, string]>([
  ['has no program', { program: 'no-such-program', packages: 'shells' }, 'no-such-program (Debian: shells)'],
  [
    'lacks a part',
    { whole: { args: ['-c', 'exit 1'], part: 'modules' }, packages: 'shells' },
    'modules of sh (Debian: shells)',
  ],
  ['has a failing program', { version: { ...version, args: ['-c', 'exit 1'] } }, 'sh that runs'],
  ['has a program that is killed', { version: { ...version, args: ['-c', 'kill -9 $$'] } }, 'sh that runs'],
])('a language is unavailable where the machine %s', async (_, tool, lack) => {
  expect(await languageOf(tool)).toEqual({ name: 'shell', there: [], missing: [lack] })
})

it('an app may not choose a version whose program lacks a part', async () => {
  const versions = (part: Partial<Tool>) => versionsOf([{ program: 'sh', missing, version, ...part }])
  const whole = { args: ['-c', 'exit 1'], part: 'modules' }
  expect([...(await versions({ isExtra: true }))]).toEqual([['sh', '1.2.3']])
  expect([...(await versions({ isExtra: true, whole }))]).toEqual([])
  // The usual version stays listed: otherwise no message could name it.
  expect([...(await versions({ whole }))]).toEqual([['sh', '1.2.3']])
})
