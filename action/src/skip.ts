import type { WorkflowEvent } from './event.ts'
import { type InputReader, inputDefaults } from './inputs/inputs.ts'

/** Returns why this run has nothing to do, as a sentence; `undefined` when it has. Called before the inputs are validated. */
export function reasonToSkip(event: WorkflowEvent, input: InputReader, actor: string | undefined): string | undefined {
  const isOn = (name: 'preview' | 'merge-group') => /^true$/i.test(input(name) || inputDefaults[name])
  if (event.skip !== undefined) return event.skip
  if (event.mergeGroup && !isOn('merge-group')) {
    return 'A merge group is not merged yet, so it is not deployed. To deploy it, set `merge-group` to true.'
  }
  const withoutAccess = input('api-key') === '' && event.mayAskForTokens === undefined
  if (withoutAccess && event.fork !== undefined) {
    return `The code comes from the fork ${event.fork}, and GitHub gives no secrets to such a run: it is not deployed.`
  }
  if (withoutAccess && actor === 'dependabot[bot]') {
    return "GitHub gives Dependabot's runs none of the repository's secrets for Actions: this one is not deployed."
  }
  if (event.pullRequest?.closed && !isOn('preview')) {
    return 'The pull request is closed, and without `preview` there is no app of its own to remove.'
  }
  return undefined
}
