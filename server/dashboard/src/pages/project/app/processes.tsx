import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { api } from '../../../data/client.ts'
import { processesQuery } from '../../../data/queries.ts'
import { writeQuery } from '../../../data/write-query.ts'
import { formatBytes } from '../../../ui/display/bytes.ts'
import { Status } from '../../../ui/display/status.tsx'
import { Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { sentNumbers } from '../../../ui/forms/values.ts'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'

type Processes = ResponseBody<'processes.list'>
type Process = Processes['processes'][number]

/** The process types of an app with their current and desired instances. */
export function Processes() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const processes = useQuery(processesQuery(projectId, appId))
  return (
    <QueryView query={processes} label="the processes">
      {(data) => (
        <>
          <Panel title="Instances" flush>
            <InstancesTable processes={data.processes} />
          </Panel>
          <Panel title="Scale">
            <Scale projectId={projectId} appId={appId} data={data} />
          </Panel>
        </>
      )}
    </QueryView>
  )
}

function InstancesTable({ processes }: { readonly processes: readonly Process[] }) {
  return (
    <Table
      label="Instances"
      rows={processes.flatMap(({ running, ...process }) => running.map((instance) => ({ ...process, ...instance })))}
      keyOf={({ name }) => name}
      columns={[
        { title: 'Instance', cell: ({ name }) => <span className="font-medium">{name}</span> },
        { title: 'State', cell: ({ state }) => <Status value={state} /> },
        { title: 'Command', wideOnly: true, cell: ({ command }) => <code className="wrap-anywhere">{command}</code> },
        { title: 'At most', wideOnly: true, cell: ({ memory_mb, cpus }) => `${memory_mb} MB, ${cpus} CPU` },
        {
          title: 'Uses',
          cell: ({ usage }) => (usage === null ? '–' : usageText(usage)),
        },
        { title: 'Started again', align: 'right', cell: ({ restarts }) => restarts },
        {
          title: 'Since',
          wideOnly: true,
          align: 'right',
          cell: ({ started_at }) => (started_at === null ? '–' : <Time at={started_at} />),
        },
      ]}
      empty={<Empty title="Nothing runs" />}
    />
  )
}

const usageText = ({ memory_bytes, cpus }: NonNullable<Process['running'][number]['usage']>): string =>
  `${formatBytes(memory_bytes)}${cpus === null ? '' : `, ${cpus.toFixed(2)} CPU`}`

interface ScaleProps {
  readonly projectId: string
  readonly appId: string
  readonly data: Processes
}

function Scale({ projectId, appId, data: { processes, max_instances } }: ScaleProps) {
  const queryClient = useQueryClient()
  const saved = Object.fromEntries(processes.map(({ type, asked }) => [nameOf(type), String(asked ?? '')]))
  const scale = useMutation({
    mutationFn: async (values: FormData) => {
      const numbers = sentNumbers(values, Object.keys(saved))
      return api.processes.update({
        params: { project_id: projectId, app_id: appId },
        body: {
          processes: Object.fromEntries(
            processes.flatMap(({ type }) => {
              const instances = numbers.get(nameOf(type))
              return instances === undefined ? [] : [[type, { instances }]]
            }),
          ),
        },
      })
    },
    onSuccess: (answer) => writeQuery(queryClient, processesQuery(projectId, appId), answer),
  })
  return (
    <div className="max-w-sm">
      <Form mutation={scale} saved={saved} submit="Scale">
        {processes.map(({ type, instances, asked }) => (
          <TextField
            key={type}
            label={`Instances of ${type}`}
            name={nameOf(type)}
            inputMode="numeric"
            autoComplete="off"
            placeholder={asked === null ? `${instances} by the repository` : 'left to the repository'}
          />
        ))}
        <p className="text-[12px] text-muted">
          The plan allows {max_instances} together. An empty field leaves the number to the repository.
        </p>
      </Form>
    </div>
  )
}

/** The name of a field, by which the server's errors find it. */
const nameOf = (type: string): string => `processes.${type}.instances`
