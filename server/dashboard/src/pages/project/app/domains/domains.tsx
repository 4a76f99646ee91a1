import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { type Domain, domainsQuery, textOfVisitors } from '../../../../data/domains/domains.ts'
import { appQuery } from '../../../../data/queries.ts'
import { Button } from '../../../../ui/controls/button.tsx'
import { Status } from '../../../../ui/display/status.tsx'
import { type Column, Table } from '../../../../ui/display/table.tsx'
import { Panel } from '../../../../ui/page/page.tsx'
import { PagedView } from '../../../../ui/page/paged-view.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { Empty } from '../../../../ui/page/states.tsx'
import type { AppOfPage } from '../app-of-page.ts'
import { AddDomain } from './add-domain.tsx'
import { DomainCertificate } from './domain-certificate.tsx'
import { DomainMenu } from './domain-menu.tsx'

/** The address and the domains of an app. */
export function Domains() {
  const app = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const domains = useInfiniteQuery(domainsQuery(app.projectId, app.appId))
  const [adding, setAdding] = useState(false)
  const refusal = domains.data?.pages[0]?.refusal ?? null
  return (
    <>
      <OwnAddress {...app} />
      <Panel
        title="Domains"
        flush
        actions={
          refusal === null && (
            <Button size="small" variant="primary" icon={<Plus size={15} />} onClick={() => setAdding(true)}>
              Add a domain
            </Button>
          )
        }
      >
        <PagedView query={domains} label="domains">
          {(pages) => {
            const rows = pages.flatMap((page) => page.domains)
            const primary = rows.find((row) => row.primary) ?? (domains.hasNextPage ? undefined : null)
            return (
              <>
                <Table
                  label="Domains"
                  rows={rows}
                  keyOf={({ id }) => id}
                  columns={[nameColumn(app), ...columns, visitorsColumn(primary), actionColumn(app)]}
                  empty={<NoDomains refusal={refusal} />}
                />
                {rows.length > 0 && refusal !== null && (
                  <p className="border-line border-t px-4 py-3 text-[13px] text-muted">{refusal}</p>
                )}
              </>
            )
          }}
        </PagedView>
      </Panel>
      {adding && <AddDomain app={app} onClose={() => setAdding(false)} />}
    </>
  )
}

/** The address of the app without domains. It stays in addition to domains. */
function OwnAddress({ projectId, appId }: AppOfPage) {
  const app = useQuery(appQuery(projectId, appId))
  return (
    <Panel title="The app's own address">
      <QueryView query={app} label="the app">
        {({ url }) => (
          <a href={url} target="_blank" rel="noreferrer" className="break-all text-accent hover:underline">
            {url}
          </a>
        )}
      </QueryView>
    </Panel>
  )
}

function NoDomains({ refusal }: { readonly refusal: string | null }) {
  return (
    <Empty title="No domains">
      <p>Your own domain, such as shop.example.com, leads visitors to this app in addition to its address.</p>
      {refusal !== null && <p className="mt-2">{refusal}</p>}
    </Empty>
  )
}

const nameColumn = (app: AppOfPage): Column<Domain> => ({
  title: 'Domain',
  cell: ({ id, name, unicode_name, problems }) => (
    <>
      <Link
        to="/projects/$projectId/apps/$appId/domains/$domainId"
        params={{ projectId: app.projectId, appId: app.appId, domainId: id }}
        className="wrap-anywhere font-medium hover:text-accent"
      >
        {unicode_name}
      </Link>
      {name !== unicode_name && <p className="wrap-anywhere font-mono text-[12px] text-muted">{name}</p>}
      {problems.length > 0 && <p className="text-[13px] text-muted">{countOf(problems.length)}</p>}
    </>
  ),
})

const countOf = (problems: number): string => (problems === 1 ? '1 problem' : `${problems} problems`)

const columns: readonly Column<Domain>[] = [
  { title: 'Status', cell: ({ status }) => <Status value={status} /> },
  {
    title: 'Certificate',
    wideOnly: true,
    cell: ({ certificate }) => <DomainCertificate certificate={certificate} />,
  },
]

const visitorsColumn = (primary: Domain | null | undefined): Column<Domain> => ({
  title: 'Visitors get',
  wideOnly: true,
  cell: (domain) => <span className="wrap-anywhere">{textOfVisitors(domain, primary)}</span>,
})

const actionColumn = (app: AppOfPage): Column<Domain> => ({
  title: 'Action',
  align: 'right',
  cell: (domain) => <DomainMenu app={app} domain={domain} />,
})
