import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { withTables } from '../../scripts/action-readme.ts'

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const read = (path: string) => readFileSync(file(path), 'utf8')

interface Workflow {
  readonly on: unknown
  readonly permissions: unknown
  readonly jobs: Record<string, { readonly steps: readonly { uses?: string; with?: Record<string, unknown> }[] }>
}

const readme = read('action/README.md')
const metadata = read('action.yml')
const { inputs } = parse(metadata) as { inputs: Record<string, { required: boolean }> }
const examples = [...readme.matchAll(/```yaml\n(name: [\s\S]*?)```/g)].map(([, text = '']) => parse(text) as Workflow)

test('the tables are those of action.yml', () => {
  expect(withTables(readme, metadata)).toBe(readme)
})

describe('the workflows of the README', () => {
  test('are four', () => {
    expect(examples).toHaveLength(4)
  })

  test.each(examples)('give every required input and no unknown one: %#', ({ jobs }) => {
    const steps = Object.values(jobs).flatMap((job) => job.steps)
    const given = steps.flatMap((step) => (step.uses?.startsWith('OWNER/fairlead@v1') ? [step.with ?? {}] : []))
    expect(given).toHaveLength(1)
    const names = Object.keys(given[0] ?? {})
    expect(Object.keys(inputs)).toEqual(expect.arrayContaining(names))
    expect(names).toEqual(expect.arrayContaining(Object.keys(inputs).filter((name) => inputs[name]?.required === true)))
  })
})

test.each(readdirSync(file('.github/workflows')))('%s is a workflow that says what it may do', (name) => {
  const workflow = parse(read(`.github/workflows/${name}`)) as Workflow
  expect(workflow).toMatchObject({ on: expect.anything(), permissions: expect.any(Object) })
  expect(Object.keys(workflow.jobs).length).toBeGreaterThan(0)
})
