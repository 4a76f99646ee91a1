import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { ExternalLink } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { deploymentQuery, projectQuery } from '../../../data/queries.ts'
import { Button, buttonClass } from '../../../ui/controls/button.tsx'
import { Facts } from '../../../ui/display/description-list.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Page, Panel } from '../../../ui/page/page.tsx'
import { Queried } from '../../../ui/page/query-view.tsx'
import { Problem } from '../../../ui/page/states.tsx'
import { Took } from './deployment-duration.tsx'
import { DeploymentVariables } from './deployment-variables.tsx'
import { LogView } from './log-view.tsx'
import { Redeploy } from './redeploy.tsx'

type Detail = ResponseBody<'deployments.get'>

export function Deployment() {
  const { projectId, deploymentId } = useParams({ from: '/frame/projects/$projectId/deployments/$deploymentId' })
  const project = useQuery(projectQuery(projectId))
  const deployment = useQuery(deploymentQuery(projectId, deploymentId))
  return (
    <Page
      title={deployment.data?.name ?? 'Deployment'}
      lead={
        <>
          <Link to="/projects/$projectId" params={{ projectId }} className="hover:text-ink">
            {project.data?.name ?? 'Project'}
          </Link>{' '}
          /{' '}
          <Link to="/projects/$projectId/deployments" params={{ projectId }} className="hover:text-ink">
            Deployments
          </Link>{' '}
          / <code className="text-[13px]">{deploymentId}</code>
        </>
      }
      actions={deployment.data && <DeploymentActions key={deploymentId} deployment={deployment.data} />}
    >
      <Queried query={deployment} what="the deployment">
        {(data) => (
          <>
            {data.failure !== null && <Failure failure={data.failure} />}
            <Panel>
              <Facts
                facts={[
                  ['Status', <Status key="status" value={data.status} />],
                  [
                    'Address',
                    <a
                      key="url"
                      href={data.url}
                      target="_blank"
                      rel="noreferrer"
                      className="inline-flex items-center gap-1 text-accent hover:underline"
                    >
                      {data.url}
                      <ExternalLink size={12} aria-hidden="true" />
                    </a>,
                  ],
                  ['Repository', data.git_url],
                  ['Branch', data.branch ?? 'the default branch'],
                  ['Commit', data.commit === null ? '…' : <code key="commit">{data.commit.slice(0, 12)}</code>],
                  ['Created', <Time key="created" at={data.created_at} />],
                  ['Took', <Took key="took" deployment={data} />],
                ]}
              />
            </Panel>
          </>
        )}
      </Queried>
      <LogView key={deploymentId} projectId={projectId} deploymentId={deploymentId} />
      {deployment.data && <DeploymentVariables key={deploymentId} deployment={deployment.data} />}
    </Page>
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

const verbs = ['cancel', 'stop', 'restart', 'rollback'] as const
type Verb = (typeof verbs)[number]

const labels: Readonly<Record<Verb, string>> = {
  cancel: 'Cancel',
  stop: 'Stop',
  restart: 'Restart',
  rollback: 'Roll back to this',
}

/** What can be done in each state. */
const verbsOf: Readonly<Record<Detail['status'], readonly Verb[]>> = {
  building: ['cancel'],
  running: ['restart', 'stop'],
  stopped: ['restart'],
  superseded: ['rollback'],
  failed: [],
  canceled: [],
}

function DeploymentActions({ deployment }: { readonly deployment: Detail }) {
  const { id, project_id, status } = deployment
  const [again, setAgain] = useState(false)
  const queries = useQueryClient()
  const act = useMutation({
    mutationFn: (verb: Verb) => api.deployments[verb]({ params: { project_id, id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['projects', project_id] }),
  })
  return (
    <>
      {verbsOf[status].map((verb) => (
        <Button
          key={verb}
          look={verb === 'stop' || verb === 'cancel' ? 'danger' : 'plain'}
          busy={act.isPending && act.variables === verb}
          onClick={() => act.mutate(verb)}
        >
          {labels[verb]}
        </Button>
      ))}
      <Button onClick={() => setAgain(true)}>Redeploy</Button>
      {status === 'running' && (
        <a href={deployment.url} target="_blank" rel="noreferrer" className={buttonClass({ look: 'primary' })}>
          Open app
        </a>
      )}
      {act.error !== null && (
        <div className="w-full">
          <Problem error={act.error} />
        </div>
      )}
      <Redeploy deployment={deployment} title="Redeploy" open={again} onOpenChange={setAgain} />
    </>
  )
}
