import { useInfiniteQuery } from '@tanstack/react-query'
import { auditLogQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { DottedName } from '../../ui/display/dotted-name.tsx'
import { Table } from '../../ui/display/table.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Panel } from '../../ui/page/page.tsx'
import { Empty, Loading, Problem } from '../../ui/page/states.tsx'

export function AuditLog() {
  const log = useInfiniteQuery(auditLogQuery)
  const entries = log.data?.pages.flatMap((page) => page.entries)
  return (
    <Panel title="Who changed what" flush>
      {log.error !== null && (
        <div className="p-3">
          <Problem error={log.error} retry={() => void log.refetch()} />
        </div>
      )}
      {entries === undefined ? (
        log.isPending && <Loading what="the audit log" />
      ) : entries.length === 0 ? (
        <Empty title="Nothing has been changed yet." />
      ) : (
        <Table
          label="Audit log"
          rows={entries}
          keyOf={({ id }) => id}
          columns={[
            { title: 'When', cell: ({ at }) => <Time at={at} /> },
            {
              title: 'Who',
              cell: ({ actor }) => (
                <span className="block max-w-28 truncate md:max-w-none">{actor.name ?? actor.id ?? actor.type}</span>
              ),
            },
            {
              title: 'What',
              cell: ({ operation }) => (
                <code className="text-[13px]">
                  <DottedName name={operation} />
                </code>
              ),
            },
            {
              title: 'On',
              wide: true,
              cell: ({ resource_id, project_id }) => <code className="text-[12px]">{resource_id ?? project_id}</code>,
            },
            { title: 'From', wide: true, cell: ({ address }) => address },
            {
              title: 'Request',
              wide: true,
              cell: ({ request_id }) => <code className="text-[12px] text-muted">{request_id?.slice(0, 8)}</code>,
            },
          ]}
        />
      )}
      {log.hasNextPage && (
        <div className="border-line border-t p-3 text-center">
          <Button busy={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            Show older entries
          </Button>
        </div>
      )}
    </Panel>
  )
}
