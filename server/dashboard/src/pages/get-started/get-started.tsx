import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { apiKeysQuery, appsQuery, projectsQuery, webhooksQuery } from '../../data/queries.ts'
import { Page } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { DeploymentStep } from './deployment-step.tsx'
import { KeyStep } from './key-step.tsx'
import { ProjectStep } from './project-step.tsx'
import { WebhookStep } from './webhook-step.tsx'
import { WorkflowStep } from './workflow-step.tsx'

/** The steps from an empty server to an app that a push deploys. A finished step turns green without a reload. */
export function GetStarted() {
  const projects = useQuery(projectsQuery)
  return (
    <Page title="Get started" lead="From a repository to a running app in four steps.">
      <QueryView query={projects} label="your projects">
        {({ projects }) => <Steps active={projects.filter(({ status }) => status === 'active')} />}
      </QueryView>
    </Page>
  )
}

function Steps({ active }: { readonly active: ResponseBody<'projects.list'>['projects'] }) {
  const keys = useQuery(apiKeysQuery)
  const webhooks = useQuery(webhooksQuery)
  const [chosen, setChosen] = useState<string>()
  const projectId = chosen ?? active[0]?.id
  const list = useQuery({ ...appsQuery(projectId ?? ''), enabled: projectId !== undefined })
  const apps = list.data?.apps ?? []
  const running = apps.find(({ serving }) => serving !== null)
  return (
    <ol className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <ProjectStep projects={active} projectId={projectId} onChoose={setChosen} />
      <KeyStep
        done={keys.data?.api_keys.some(({ revoked_at }) => revoked_at === null) ?? false}
        projectId={projectId}
      />
      <WorkflowStep done={apps.length > 0} projectId={projectId} />
      <DeploymentStep done={running !== undefined} projectId={projectId} app={running ?? apps.at(-1)} />
      <WebhookStep done={(webhooks.data?.webhooks.length ?? 0) > 0} />
    </ol>
  )
}
