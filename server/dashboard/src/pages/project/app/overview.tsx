import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { appQuery, metricsQuery, processesQuery } from '../../../data/queries.ts'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { DescriptionList } from '../../../ui/display/description-list.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { AppStatus } from '../app-status.tsx'

type App = ResponseBody<'apps.get'>

/** An app at a glance: its address, its serving release, its processes and its last hour. */
export function AppOverview() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const app = useQuery(appQuery(projectId, appId))
  const processes = useQuery(processesQuery(projectId, appId))
  const metrics = useQuery(metricsQuery(projectId, appId, '1h'))
  return (
    <>
      <Panel title="App">
        <QueryView query={app} label="the app">
          {(data) => <Facts projectId={projectId} app={data} />}
        </QueryView>
      </Panel>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 md:grid-cols-2">
        <Panel title="Processes">
          <QueryView query={processes} label="the processes">
            {(data) => <DescriptionList items={data.processes.map((each) => [each.type, runningText(each)])} />}
          </QueryView>
        </Panel>
        <Panel title="Last hour">
          <QueryView query={metrics} label="the metrics">
            {(data) => <LastHour metrics={data} />}
          </QueryView>
        </Panel>
      </div>
    </>
  )
}

function Facts({ projectId, app }: { readonly projectId: string; readonly app: App }) {
  const { url, serving } = app
  return (
    <DescriptionList
      items={[
        ['Address', <Address key="url" url={url} />],
        ...(app.domains.length === 0
          ? []
          : [['Domains', <DomainLinks key="domains" projectId={projectId} app={app} />] as const]),
        ['State', <AppStatus key="state" projectId={projectId} app={app} />],
        ...(serving === null ? [] : servingFacts(projectId, serving)),
        ['Created', <Time key="created" at={app.created_at} />],
      ]}
    />
  )
}

const Address = ({ url }: { readonly url: string }) => (
  <a href={url} target="_blank" rel="noreferrer" className="break-all text-accent hover:underline">
    {url}
  </a>
)

/** More would push the state of the app off the screen. */
const domainsAtOnce = 10

/** The verified domains, at the scheme and the port of the app's own address. */
function DomainLinks({ projectId, app: { id, url, domains } }: { readonly projectId: string; readonly app: App }) {
  return (
    <ul>
      {domains.slice(0, domainsAtOnce).map((name) => {
        const address = new URL(url)
        address.hostname = name
        return <li key={name}>{name.startsWith('*.') ? name : <Address url={address.href.replace(/\/$/, '')} />}</li>
      })}
      {domains.length > domainsAtOnce && (
        <li>
          <Link
            to="/projects/$projectId/apps/$appId/domains"
            params={{ projectId, appId: id }}
            className="text-accent hover:underline"
          >
            and {domains.length - domainsAtOnce} more
          </Link>
        </li>
      )}
    </ul>
  )
}

function servingFacts(projectId: string, { id, commit, branch, image, finished_at }: NonNullable<App['serving']>) {
  const link = (
    <Link
      to="/projects/$projectId/deployments/$deploymentId"
      params={{ projectId, deploymentId: id }}
      className="break-all text-accent hover:underline"
    >
      {id}
    </Link>
  )
  return [
    ['Release', link],
    ...(commit === null
      ? []
      : [['Commit', `${commit.hash.slice(0, 7)} ${commit.message?.split('\n')[0] ?? ''}`] as const]),
    ...(branch === null ? [] : [['Branch', branch] as const]),
    ...(image === null ? [] : [['Image', image.reference] as const]),
    ['Serves since', finished_at === null ? '–' : <Time key="since" at={finished_at} />],
  ] as const
}

/** Returns a text such as `2 of 3 running`. */
function runningText({ instances, running }: ResponseBody<'processes.list'>['processes'][number]): string {
  const count = running.filter(({ state }) => state === 'running').length
  return instances === 0 && count === 0 ? 'none asked for' : `${count} of ${instances} running`
}

function LastHour({ metrics: { totals, points } }: { readonly metrics: ResponseBody<'metrics.get'> }) {
  const latest = points.findLast(({ memory_bytes }) => memory_bytes !== null)
  const memory = latest?.memory_bytes ?? null
  return (
    <DescriptionList
      items={[
        ['Requests', totals.requests.toLocaleString('en')],
        ['Server errors', totals.status_5xx.toLocaleString('en')],
        ['95 % answered within', totals.p95_ms === null ? '–' : `${Math.round(totals.p95_ms)} ms`],
        ['Memory', memory === null ? '–' : formatBytes(memory)],
        ['Restarts', totals.restarts.toLocaleString('en')],
      ]}
    />
  )
}
