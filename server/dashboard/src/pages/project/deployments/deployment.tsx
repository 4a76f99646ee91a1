import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import { Fragment, type ReactNode, useState } from 'react'
import type { Deployment as Detail } from '../../../data/deployments.ts'
import { deploymentQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { DescriptionList } from '../../../ui/display/description-list.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Page, Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Breadcrumbs } from '../breadcrumbs.tsx'
import { LogView } from '../log/log-view.tsx'
import { DeploymentActions } from './deployment-actions.tsx'
import { DeploymentDuration } from './deployment-duration.tsx'
import { DeploymentSteps } from './deployment-steps.tsx'
import { DeploymentVariables } from './deployment-variables.tsx'
import { Redeploy } from './redeploy.tsx'
import { Trigger } from './trigger.tsx'

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
            {data.failure !== null && <Failure deployment={data} failure={data.failure} />}
            <DeploymentDetails deployment={data} />
            {data.steps.length > 0 && <DeploymentSteps deployment={data} />}
          </>
        )}
      </QueryView>
      {deployment.data && (
        <Fragment key={deploymentId}>
          <LogView source={{ projectId, id: deploymentId }} />
          <DeploymentVariables deployment={deployment.data} />
        </Fragment>
      )}
    </Page>
  )
}

function DeploymentDetails({ deployment }: { readonly deployment: Detail }) {
  const { status, url, from_deployment_id, trigger, root, created_at } = deployment
  return (
    <Panel>
      <DescriptionList
        items={[
          ['App', <AppPageLink key="app" deployment={deployment} />],
          ['Status', <StatusWithQueue key="status" status={status} before={deployment.builds_before} />],
          ['URL', <AppLink key="url" url={url} />],
          ...(from_deployment_id === null
            ? []
            : [['Promoted from', <code key="from">{from_deployment_id}</code>] as const]),
          ...sourceItems(deployment),
          ['Trigger', <Trigger key="trigger" trigger={trigger} />],
          ...(root === null ? [] : [['Folder', root] as const]),
          ['Created', <Time key="created" at={created_at} />],
          ['Duration', <DeploymentDuration key="duration" deployment={deployment} />],
        ]}
      />
    </Panel>
  )
}

/** The repository with its branch and commit, or the image with its digest. */
function sourceItems(deployment: Detail): readonly (readonly [string, ReactNode])[] {
  const { image, git_url, branch } = deployment
  if (image !== null) {
    return [
      ['Image', <Breakable key="image" text={image.reference} />],
      ['Digest', image.digest === null ? '…' : <Breakable key="digest" text={image.digest} />],
    ]
  }
  return [
    ['Repository', git_url ?? 'uploaded'],
    ['Branch', branch ?? (git_url === null ? '–' : 'the default branch')],
    ['Commit', <Commit key="commit" deployment={deployment} />],
  ]
}

const Breakable = ({ text }: { readonly text: string }) => <code className="wrap-anywhere">{text}</code>

function Commit({ deployment: { commit, commit_message, commit_author } }: { readonly deployment: Detail }) {
  if (commit === null) return '…'
  return (
    <>
      <code>{commit.slice(0, 12)}</code>
      {commit_message !== null && <> {commit_message.split('\n')[0]}</>}
      {commit_author !== null && <span className="text-muted"> by {commit_author}</span>}
    </>
  )
}

function AppPageLink({ deployment: { project_id, app_id, name } }: { readonly deployment: Detail }) {
  return (
    <Link
      to="/projects/$projectId/apps/$appId"
      params={{ projectId: project_id, appId: app_id }}
      className="text-accent hover:underline"
    >
      {name}
    </Link>
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

function StatusWithQueue({ status, before }: { readonly status: Detail['status']; readonly before: number | null }) {
  return (
    <>
      <Status value={status} />
      {before !== null && (
        <span className="text-muted"> waits for {before === 1 ? '1 build' : `${before} builds`} before this one</span>
      )}
    </>
  )
}

interface FailureProps {
  readonly deployment: Detail
  readonly failure: NonNullable<Detail['failure']>
}

function Failure({ deployment, failure }: FailureProps) {
  return (
    <section role="alert" className="grid gap-1 rounded-lg border border-bad/40 bg-bad-soft p-4">
      <h2 className="font-semibold text-bad">
        Failed in the step {failure.stage} <code className="font-normal">({failure.code})</code>
      </h2>
      <pre className="wrap-anywhere whitespace-pre-wrap font-mono text-[13px]">{failure.message}</pre>
      {failure.suggestions.length > 0 && <Suggestions deployment={deployment} suggestions={failure.suggestions} />}
    </section>
  )
}

interface SuggestionsProps {
  readonly deployment: Detail
  readonly suggestions: FailureProps['failure']['suggestions']
}

/**
 * Offers the folders that contain apps. Each opens the form of a new deployment, because a private repository needs its
 * token again.
 */
function Suggestions({ deployment, suggestions }: SuggestionsProps) {
  const [root, setRoot] = useState<string>()
  return (
    <div className="mt-2 flex flex-wrap gap-2">
      {suggestions.map((each) => (
        <Button key={each.root} onClick={() => setRoot(each.root)}>
          Deploy {each.root} ({each.kind})
        </Button>
      ))}
      <Redeploy
        key={root}
        deployment={deployment}
        title={`Deploy ${root ?? ''}`}
        root={root}
        open={root !== undefined}
        onClose={() => setRoot(undefined)}
      />
    </div>
  )
}
