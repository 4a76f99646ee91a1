import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CheckCircle2, Circle } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { api } from '../data/client.ts'
import { apiKeysQuery, deploymentsQuery, projectsQuery, webhooksQuery } from '../data/queries.ts'
import { receiverSnippet, workflowSnippet } from '../data/snippets.ts'
import { Button } from '../ui/controls/button.tsx'
import { CodeBlock } from '../ui/controls/copy-button.tsx'
import { SecretDialog } from '../ui/dialogs/secret-dialog.tsx'
import { SelectField } from '../ui/forms/field.tsx'
import { Page } from '../ui/page/page.tsx'
import { Queried } from '../ui/page/query-view.tsx'
import { Problem } from '../ui/page/states.tsx'

/** The way from nothing to an app that a push deploys. Each step turns green by itself once it is done. */
export function GetStarted() {
  const projects = useQuery(projectsQuery)
  return (
    <Page title="Get started" lead="From a repository to a running app in four steps.">
      <Queried query={projects} what="your projects">
        {({ projects }) => <Steps active={projects.filter(({ status }) => status === 'active')} />}
      </Queried>
    </Page>
  )
}

function Steps({ active }: { readonly active: ResponseBody<'projects.list'>['projects'] }) {
  const keys = useQuery(apiKeysQuery)
  const webhooks = useQuery(webhooksQuery)
  const [chosen, setChosen] = useState<string>()
  const projectId = chosen ?? active[0]?.id
  const deployments = useQuery({ ...deploymentsQuery(projectId ?? ''), enabled: projectId !== undefined })
  const first = deployments.data?.deployments.at(-1)
  const running = deployments.data?.deployments.find(({ status }) => status === 'running')
  return (
    <ol className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <Step done={active.length > 0} title="A project">
        {active.length === 0 ? (
          <CreateFirstProject />
        ) : (
          <SelectField label="Deploy into" value={projectId} onChange={({ target }) => setChosen(target.value)}>
            {active.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </SelectField>
        )}
      </Step>
      <Step done={keys.data?.api_keys.some(({ revoked_at }) => revoked_at === null) ?? false} title="An API key">
        <p className="mb-2 text-muted">
          Store it as the secret <code>FAIRLEAD_API_KEY</code> of your repository.
        </p>
        <CreateFirstKey projectId={projectId} />
      </Step>
      <Step done={first !== undefined} title="A workflow">
        <p className="mb-2 text-muted">
          Put this into your repository and push. <code>OWNER/fairlead</code> is the repository on GitHub that holds
          Fairlead's code.
        </p>
        {isLoopback(location.hostname) && projectId !== undefined && (
          <p className="mb-2 text-muted">
            GitHub cannot reach a server on a laptop. There, deploy from{' '}
            <Link to="/projects/$projectId/deployments" params={{ projectId }} className="text-accent underline">
              the project
            </Link>
            .
          </p>
        )}
        <CodeBlock label="Workflow" code={workflowSnippet(location.origin, projectId ?? 'proj_…')} />
      </Step>
      <Step done={running !== undefined} title="The first deployment">
        {first === undefined || projectId === undefined ? (
          <p className="text-muted">It shows up here as soon as it arrives.</p>
        ) : (
          <p>
            <Link
              to="/projects/$projectId/deployments/$deploymentId"
              params={{ projectId, deploymentId: (running ?? first).id }}
              className="text-accent underline"
            >
              {(running ?? first).name}
            </Link>{' '}
            is {(running ?? first).status}.
          </p>
        )}
      </Step>
      <Step done={(webhooks.data?.webhooks.length ?? 0) > 0} title="And then: be told">
        <p className="mb-2 text-muted">
          Make a{' '}
          <Link to="/webhooks" className="text-accent underline">
            webhook receiver
          </Link>
          , and an app of yours is told of every deployment.
        </p>
        <CodeBlock label="Code of a receiver" code={receiverSnippet} />
      </Step>
    </ol>
  )
}

/** Whether this is the name of the browser's own machine. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')
}

interface StepProps {
  readonly done: boolean
  readonly title: string
  readonly children: ReactNode
}

function Step({ done, title, children }: StepProps) {
  return (
    <li className="flex gap-3 rounded-lg border border-line bg-panel p-4">
      <span className={`mt-0.5 ${done ? 'text-good' : 'text-muted'}`}>
        {done ? <CheckCircle2 size={18} aria-hidden="true" /> : <Circle size={18} aria-hidden="true" />}
      </span>
      <div className="min-w-0 flex-1">
        <h2 className="mb-2 font-semibold">
          {title}
          {done && <span className="sr-only"> (done)</span>}
        </h2>
        {children}
      </div>
    </li>
  )
}

function CreateFirstProject() {
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: () => api.projects.create({ body: { name: 'My project' } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['projects'] }),
  })
  return (
    <div className="grid justify-items-start gap-2">
      <Button look="primary" busy={create.isPending} onClick={() => create.mutate()}>
        Create a project
      </Button>
      {create.error !== null && <Problem error={create.error} />}
    </div>
  )
}

function CreateFirstKey({ projectId }: { readonly projectId: string | undefined }) {
  const queries = useQueryClient()
  const [secret, setSecret] = useState<string>()
  const create = useMutation({
    mutationFn: () =>
      api.apiKeys.create({
        body: {
          name: 'GitHub Actions',
          preset: 'deploy',
          project_ids: projectId === undefined ? null : [projectId],
          expires_in_days: 90,
        },
      }),
    onSuccess: async ({ key }) => {
      setSecret(key)
      await queries.invalidateQueries({ queryKey: ['api-keys'] })
    },
  })
  return (
    <div className="grid justify-items-start gap-2">
      <Button busy={create.isPending} disabled={projectId === undefined} onClick={() => create.mutate()}>
        Create a key for this project
      </Button>
      {create.error !== null && <Problem error={create.error} />}
      <SecretDialog title="Your new API key" secret={secret} onDone={() => setSecret(undefined)} />
    </div>
  )
}
