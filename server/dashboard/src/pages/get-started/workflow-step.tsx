import { Link } from '@tanstack/react-router'
import { workflowSnippet } from '../../data/snippets.ts'
import { CodeBlock } from '../../ui/controls/code-block.tsx'
import { Step } from './step.tsx'

export function WorkflowStep({ done, projectId }: { readonly done: boolean; readonly projectId: string | undefined }) {
  return (
    <Step done={done} title="A workflow">
      <p className="mb-2 text-muted">
        Add this file to your repository and push. <code>OWNER/fairlead</code> is the repository on GitHub that holds
        Fairlead's code.
      </p>
      {isLoopback(location.hostname) && projectId !== undefined && (
        <p className="mb-2 text-muted">
          GitHub cannot reach a server on a laptop. Instead, deploy from{' '}
          <Link to="/projects/$projectId/deployments" params={{ projectId }} className="text-accent underline">
            the project
          </Link>
          .
        </p>
      )}
      <CodeBlock label="Workflow" code={workflowSnippet(location.origin, projectId ?? 'proj_…')} />
    </Step>
  )
}

/** True when the host name means the browser's own machine. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')
}
