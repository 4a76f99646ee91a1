import { api } from '../../../../data/client.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { ErrorAlert } from '../../../../ui/page/states.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { useChange } from './use-change.ts'

interface GivenVariablesProps {
  readonly app: AppOfPage
  readonly names: readonly string[]
}

/** The `env_vars` of the current deployment: they take precedence until they become variables of the app. */
export function GivenVariables({ app, names }: GivenVariablesProps) {
  const adopt = useChange(app, () => api.variables.adopt({ params: paramsOf(app) }))
  if (names.length === 0) return null
  return (
    <Panel
      title="Given by the deployment"
      actions={
        <Button size="small" busy={adopt.isPending} onClick={() => adopt.mutate()}>
          Make them variables of the app
        </Button>
      }
    >
      <p className="text-muted">
        The current deployment was created with these. They take precedence over the variables of the app, and a further
        deployment does not have them by itself.
      </p>
      <ul className="mt-2 flex flex-wrap gap-x-4 gap-y-1 font-mono text-[13px]">
        {names.map((name) => (
          <li key={name} className="break-all">
            {name}
          </li>
        ))}
      </ul>
      {adopt.error !== null && <ErrorAlert error={adopt.error} />}
    </Panel>
  )
}
