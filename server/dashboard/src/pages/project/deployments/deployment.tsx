import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import type { Deployment as Detail } from '../../../data/deployments.ts'
import { deploymentQuery } from '../../../data/queries.ts'
import { DescriptionList } from '../../../ui/display/description-list.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Page, Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Breadcrumbs } from '../breadcrumbs.tsx'
import { DeploymentActions } from './deployment-actions.tsx'
import { DeploymentDuration } from './deployment-duration.tsx'
import { DeploymentVariables } from './deployment-variables.tsx'
import { LogView } from './log-view.tsx'

const list = { label: 'Deployments', to: '/projects/$projectId/deployments' } as const

export function Deployment() {
  const { projectId, deploymentId } = useParams({ from: '/layout/projects/$projectId/deployments/$deploymentId' })
  const deployment = useQuery(deploymentQuery(projectId, deploymentId))
  return (
    <Page
      title={deployment.data?.name ?? 'Deployment'}
      lead={<Breadcrumbs projectId={projectId} list={list} resourceId={deploymentId} />}
      actions={deployment.data && <DeploymentActions key={deploymentId} deployment={deployment.data} />}
    >
      <QueryView query={deployment} label="the deployment">
        {(data) => (
          <>
            {data.failure !== null && <Failure failure={data.failure} />}
            <DeploymentDetails deployment={data} />
          </>
        )}
      </QueryView>
      <LogView key={deploymentId} projectId={projectId} deploymentId={deploymentId} />
      {deployment.data && <DeploymentVariables key={deploymentId} deployment={deployment.data} />}
    </Page>
  )
}

function DeploymentDetails({ deployment }: { readonly deployment: Detail }) {
  const { status, url, git_url, branch, commit, created_at } = deployment
  return (
    <Panel>
      <DescriptionList
        items={[
          ['Status', <Status key="status" value={status} />],
          ['URL', <AppLink key="url" url={url} />],
          ['Repository', git_url],
          ['Branch', branch ?? 'the default branch'],
          ['Commit', commit === null ? '…' : <code key="commit">{commit.slice(0, 12)}</code>],
          ['Created', <Time key="created" at={created_at} />],
          ['Duration', <DeploymentDuration key="duration" deployment={deployment} />],
        ]}
      />
    </Panel>
  )
}

function AppLink({ url }: { readonly url: string }) {
  return (
    <a
      href={url}
      target="_blank"
      rel="noreferrer"
      className="inline-flex items-center gap-1 text-accent hover:underline"
    >
      {url}
      <ExternalLink size={12} aria-hidden="true" />
    </a>
  )
}

function Failure({ failure }: { readonly failure: NonNullable<Detail['failure']> }) {
  return (
    <section role="alert" className="grid gap-1 rounded-lg border border-bad/40 bg-bad-soft p-4">
      <h2 className="font-semibold text-bad">
        Failed in the step {failure.stage} <code className="font-normal">({failure.code})</code>
      </h2>
      <pre className="wrap-anywhere whitespace-pre-wrap font-mono text-[13px]">{failure.message}</pre>
    </section>
  )
}
