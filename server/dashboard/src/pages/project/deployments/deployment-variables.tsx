import { Link } from '@tanstack/react-router'
import type { Deployment } from '../../../data/deployments.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { Panel } from '../../../ui/page/page.tsx'

/** The names of the variables of a release. Later releases use the app's variables. */
export function DeploymentVariables({ deployment }: { readonly deployment: Deployment }) {
  const { project_id, app_id, env_var_names } = deployment
  return (
    <Panel
      title="Variables"
      actions={
        <Link
          to="/projects/$projectId/apps/$appId/variables"
          params={{ projectId: project_id, appId: app_id }}
          className={buttonClass({ size: 'small' })}
        >
          Change variables
        </Link>
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
    </Panel>
  )
}
