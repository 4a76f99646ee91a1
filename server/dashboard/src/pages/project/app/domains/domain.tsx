import { ApiError } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { api } from '../../../../data/client.ts'
import { type Domain as DomainData, domainQuery, isWildcard } from '../../../../data/domains/domains.ts'
import { writeQuery } from '../../../../data/write-query.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { DescriptionList } from '../../../../ui/display/description-list.tsx'
import { Status } from '../../../../ui/display/status.tsx'
import { Time } from '../../../../ui/display/time.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { Empty, ErrorAlert } from '../../../../ui/page/states.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { DomainCertificate } from './domain-certificate.tsx'
import { DomainMenu } from './domain-menu.tsx'
import { DomainProblems } from './domain-problems.tsx'
import { DomainRecords } from './domain-records.tsx'

/** One domain: its state, the records to set, and what is wrong with them. */
export function Domain() {
  const { domainId, ...app } = useParams({ from: '/layout/projects/$projectId/apps/$appId/domains/$domainId' })
  const domain = useQuery(domainQuery(app.projectId, app.appId, domainId))
  return (
    <>
      <Link to="/projects/$projectId/apps/$appId/domains" params={app} className="text-accent hover:underline">
        All domains
      </Link>
      {domain.error instanceof ApiError && domain.error.code === 'not_found' ? (
        <Empty title="This app has no such domain">It was removed, perhaps in another window.</Empty>
      ) : (
        <QueryView query={domain} label="the domain">
          {(data) => (
            <>
              <DomainPanel app={app} domain={data} />
              <Panel title="DNS records" flush>
                <DomainRecords domain={data} />
              </Panel>
            </>
          )}
        </QueryView>
      )}
    </>
  )
}

/** The state of a domain with the findings of its last check, and a button for another check. */
function DomainPanel({ app, domain }: { readonly app: AppOfPage; readonly domain: DomainData }) {
  const queryClient = useQueryClient()
  const check = useMutation({
    mutationFn: () => api.domains.check({ params: { ...paramsOf(app), id: domain.id } }),
    onSuccess: (checked) => writeQuery(queryClient, domainQuery(app.projectId, app.appId, domain.id), checked),
  })
  return (
    <Panel
      title={domain.unicode_name}
      actions={
        <>
          <Button size="small" busy={check.isPending} onClick={() => check.mutate()}>
            Check now
          </Button>
          <DomainMenu app={app} domain={domain} />
        </>
      }
    >
      <div className="grid gap-4">
        <Facts domain={domain} />
        {check.error !== null && <ErrorAlert error={check.error} />}
        <DomainProblems domain={domain} />
        <output className="sr-only">{check.isSuccess ? summaryOf(check.data) : ''}</output>
      </div>
    </Panel>
  )
}

const summaryOf = ({ problems }: DomainData): string =>
  problems.length === 0
    ? 'Checked: no problem was found.'
    : `Checked: ${problems.map(({ message }) => message).join(' ')}`

function Facts({ domain }: { readonly domain: DomainData }) {
  const { name, unicode_name, url, status, certificate } = domain
  return (
    <DescriptionList
      items={[
        ['Status', <Status key="status" value={status} />],
        [
          'Address',
          <span key="url" className="break-all">
            {isWildcard(domain) ? (
              url
            ) : (
              <a href={url} target="_blank" rel="noreferrer" className="text-accent hover:underline">
                {url}
              </a>
            )}
          </span>,
        ],
        ...(name === unicode_name ? [] : [['In DNS', <code key="name">{name}</code>] as const]),
        ['Visitors', visitorsOf(domain)],
        ['Certificate', <DomainCertificate key="certificate" certificate={certificate} />],
        ['Last check', <Checked key="checked" domain={domain} />],
      ]}
    />
  )
}

function visitorsOf(domain: DomainData): string {
  if (domain.status === 'pending') return 'get nothing here before the DNS records are found'
  if (domain.primary) return 'get the app: the primary domain, to which others redirect'
  if (domain.redirect) return 'are sent to the primary domain of the app'
  return isWildcard(domain) ? 'get the app at all names directly below' : 'get the app'
}

function Checked({ domain: { checked_at, next_check_at } }: { readonly domain: DomainData }) {
  if (checked_at === null) return 'The first one is under way.'
  return (
    <>
      <Time at={checked_at} />
      {next_check_at === null ? (
        '. No other one comes by itself: check it when its records are set.'
      ) : (
        <>
          , the next one <Time at={next_check_at} />
        </>
      )}
    </>
  )
}
