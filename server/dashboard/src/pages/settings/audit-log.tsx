import type { ResponseBody } from '@fairlead/server/client'
import { useInfiniteQuery } from '@tanstack/react-query'
import { auditLogQuery } from '../../data/queries.ts'
import { DottedName } from '../../ui/display/dotted-name.tsx'
import { type Column, Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { PagedView } from '../../ui/page/paged-view.tsx'
import { Empty } from '../../ui/page/states.tsx'

type Entry = ResponseBody<'auditLog.list'>['entries'][number]

export function AuditLog() {
  const log = useInfiniteQuery(auditLogQuery)
  return (
    <Panel title="Audit log" flush>
      <PagedView query={log} label="entries">
        {(pages) => (
          <Table
            label="Audit log"
            rows={pages.flatMap(({ entries }) => entries)}
            keyOf={({ id }) => id}
            columns={columns}
            empty={<Empty title="Nothing has been changed yet." />}
          />
        )}
      </PagedView>
    </Panel>
  )
}

const columns: readonly Column<Entry>[] = [
  { title: 'Time', cell: ({ at }) => <Time at={at} /> },
  {
    title: 'Actor',
    cell: ({ actor }) => (
      <span className="block max-w-28 truncate md:max-w-none">{actor.name ?? actor.id ?? actor.type}</span>
    ),
  },
  {
    title: 'Operation',
    cell: ({ operation }) => (
      <code className="text-[13px]">
        <DottedName name={operation} />
      </code>
    ),
  },
  {
    title: 'Resource',
    wideOnly: true,
    cell: ({ resource_id, project_id }) => <code className="text-[12px]">{resource_id ?? project_id}</code>,
  },
  { title: 'Address', wideOnly: true, cell: ({ address }) => address },
  {
    title: 'Request',
    wideOnly: true,
    cell: ({ request_id }) => <code className="text-[12px] text-muted">{request_id?.slice(0, 8)}</code>,
  },
]
