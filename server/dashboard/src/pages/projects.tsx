import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api } from '../data/client.ts'
import { projectsQuery } from '../data/projects.ts'
import { Button } from '../ui/button.tsx'
import { Actions, Dialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { Page, Panel } from '../ui/page.tsx'
import { Empty, Loading, Problem, problemOf } from '../ui/states.tsx'
import { Status } from '../ui/status.tsx'
import { Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'

export function Projects() {
  const [creating, setCreating] = useState(false)
  const list = useQuery(projectsQuery)
  const create = (
    <Button look="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
      New project
    </Button>
  )
  return (
    <Page title="Projects" lead={list.data && `${list.data.total} in all`} actions={create}>
      {list.error !== null && <Problem error={list.error} retry={() => void list.refetch()} />}
      <Panel flush>
        {list.data === undefined ? (
          list.isPending && <Loading what="projects" />
        ) : list.data.projects.length === 0 ? (
          <Empty title="No project yet">
            <p>A project holds apps, databases and files.</p>
            {create}
          </Empty>
        ) : (
          <Table
            label="Projects"
            rows={list.data.projects}
            keyOf={({ id }) => id}
            columns={[
              { title: 'Name', cell: ({ name }) => name },
              { title: 'Status', cell: ({ status }) => <Status value={status} /> },
              { title: 'Region', cell: ({ region }) => region, wide: true },
              { title: 'Created', cell: ({ created_at }) => <Time at={created_at} />, align: 'right' },
            ]}
          />
        )}
      </Panel>
      <CreateProject open={creating} onOpenChange={setCreating} />
    </Page>
  )
}

function CreateProject({
  open,
  onOpenChange,
}: {
  readonly open: boolean
  readonly onOpenChange: (open: boolean) => void
}) {
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: (name: string) => api.projects.create({ body: { name } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['projects'] })
      onOpenChange(false)
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(String(new FormData(event.currentTarget).get('name')))
  }
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="New project">
      <form onSubmit={submit} noValidate className="grid gap-4">
        <TextField label="Name" name="name" required autoComplete="off" problem={problemOf(create.error, 'name')} />
        {create.error !== null && problemOf(create.error, 'name') === undefined && <Problem error={create.error} />}
        <Actions>
          <Button onClick={() => onOpenChange(false)}>Cancel</Button>
          <Button type="submit" look="primary" busy={create.isPending}>
            Create project
          </Button>
        </Actions>
      </form>
    </Dialog>
  )
}
