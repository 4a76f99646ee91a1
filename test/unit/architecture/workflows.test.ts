import { readdirSync, readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { workflowSnippet } from '../../../server/dashboard/src/data/snippets.ts'

// The parser imports JSON as bundlers understand it; Node needs to know that the file is JSON.
const hooks = registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    return specifier.endsWith('.json') ? { ...found, importAttributes: { type: 'json' } } : found
  },
})
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import('@actions/workflow-parser')
const { parseAction } = await import('@actions/workflow-parser/actions/action-parser')
hooks.deregister()

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8')
const trace = new NoOperationTraceWriter()

/** Returns the errors that GitHub's parser finds in a workflow. */
async function workflowErrors(content: string): Promise<string[]> {
  const { context, value } = parseWorkflow({ name: 'workflow.yml', content }, trace)
  if (value !== undefined) await convertWorkflowTemplate(context, value)
  return context.errors.getErrors().map(({ message }) => message)
}

/** Returns the errors that it finds in the metadata of an action. */
function actionErrors(content: string): string[] {
  const { context } = parseAction({ name: 'action.yml', content }, trace)
  return context.errors.getErrors().map(({ message }) => message)
}

interface Step {
  readonly uses?: string
  readonly with?: Readonly<Record<string, unknown>>
}

const { inputs } = parse(read('action.yml')) as { inputs: Record<string, { required: boolean }> }
const required = Object.keys(inputs).filter((name) => inputs[name]?.required === true)

/** All YAML on a page. */
const shownBy = (page: string) => [...read(page).matchAll(/```ya?ml\n([\s\S]*?)```/g)].map(([, text = '']) => text)

/** `test/system/command/ci.test.ts` runs the files for other CIs, and for GitHub without the action. */
const withoutAction = 'ci.md'
const docs = readdirSync(fileURLToPath(new URL('../../../docs', import.meta.url)))
  .filter((name) => name !== withoutAction)
  .map((name) => `docs/${name}`)
const pages = ['README.md', 'action/README.md', 'receiver/README.md', 'server/README.md', ...docs]
const shown = pages
  .filter((page) => page.endsWith('.md'))
  .flatMap((page) => shownBy(page).map((content, at) => ({ where: `example ${at + 1} of ${page}`, content })))
const inputsAlone = shown.filter(({ content }) => !/^on:/m.test(content))
const workflows = [
  ...shown.filter((example) => !inputsAlone.includes(example)),
  { where: 'what the dashboard shows', content: workflowSnippet('https://fairlead.example.com', 'proj_…') },
]

it('examples are found', () => {
  expect([workflows.length, inputsAlone.length]).toEqual([8, 3])
})

it.each(inputsAlone)('$where fits into a step', async ({ content }) => {
  const given = content.replace(/^/gm, '          ')
  const step = `      - uses: OWNER/fairlead@v1\n        with:\n${given}`
  expect(await workflowErrors(`on: push\njobs:\n  deploy:\n    runs-on: ubuntu-latest\n    steps:\n${step}`)).toEqual(
    [],
  )
})

describe.each(workflows)('$where', ({ content }) => {
  it('is a GitHub workflow', async () => {
    expect(await workflowErrors(content)).toEqual([])
  })

  it('gives the action every required input and no unknown one', () => {
    const { jobs } = parse(content) as { jobs: Record<string, { steps: Step[] }> }
    const steps = Object.values(jobs).flatMap((job) => job.steps)
    const given = steps.flatMap((step) => (step.uses?.startsWith('OWNER/fairlead@v1') ? [step.with ?? {}] : []))
    expect(given.length).toBeGreaterThan(0)
    for (const names of given.map((each) => Object.keys(each))) {
      expect(Object.keys(inputs)).toEqual(expect.arrayContaining(names))
      expect(names).toEqual(expect.arrayContaining(required))
    }
  })
})

describe.each(readdirSync(fileURLToPath(new URL('../../../.github/workflows', import.meta.url))))('%s', (name) => {
  const content = read(`.github/workflows/${name}`)

  it('is a GitHub workflow', async () => {
    expect(await workflowErrors(content)).toEqual([])
  })

  it('declares its permissions', () => {
    expect(parse(content)).toMatchObject({ permissions: expect.any(Object) })
  })
})

it('action.yml is valid metadata of a GitHub action', () => {
  expect(actionErrors(read('action.yml'))).toEqual([])
})

it.each([
  ['an unknown key', 'on: push\njobs:\n  a:\n    runs-on: x\n    stepz: []\n'],
  ['an unknown event', 'on: pushed\njobs:\n  a:\n    runs-on: x\n    steps: [{ run: x }]\n'],
  [
    'an unknown context',
    `on: push\nenv:\n  A: \${{ steps.x.outputs.y }}\njobs:\n  a:\n    runs-on: x\n    steps: [{ run: x }]\n`,
  ],
  ['a missing dependency of a job', 'on: push\njobs:\n  a:\n    needs: b\n    runs-on: x\n    steps: [{ run: x }]\n'],
  [
    'an unknown permission',
    'on: push\npermissions:\n  deploys: write\njobs:\n  a:\n    runs-on: x\n    steps: [{ run: x }]\n',
  ],
])('the parser sees %s', async (_, content) => {
  expect(await workflowErrors(content)).not.toEqual([])
})

it('the parser finds errors in the metadata of an action', () => {
  expect(actionErrors('name: x\ndescription: x\nruns:\n  using: node24\n')).not.toEqual([])
})
