import { useState } from 'react'
import type { Deployment } from '../../../data/deployments.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { Redeploy } from './redeploy.tsx'

/** The names of a deployment's variables. The API never returns their values. */
export function DeploymentVariables({ deployment }: { readonly deployment: Deployment }) {
  const [changing, setChanging] = useState(false)
  const { env_var_names } = deployment
  return (
    <Panel
      title="Variables"
      actions={
        <Button size="small" onClick={() => setChanging(true)}>
          Change variables
        </Button>
      }
    >
      {env_var_names.length === 0 ? (
        <p className="text-muted">None.</p>
      ) : (
        <ul className="flex flex-wrap gap-x-4 gap-y-1 font-mono text-[13px]">
          {env_var_names.map((name) => (
            <li key={name} className="break-all">
              {name}
            </li>
          ))}
        </ul>
      )}
      <Redeploy deployment={deployment} title="Change variables" open={changing} onClose={() => setChanging(false)} />
    </Panel>
  )
}
