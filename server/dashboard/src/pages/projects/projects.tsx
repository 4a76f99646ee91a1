import { useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { projectsQuery } from '../../data/queries.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Dialog } from '../../ui/dialogs/dialog.tsx'
import { useLinkedDialog } from '../../ui/dialogs/use-linked-dialog.ts'
import { Page, Panel } from '../../ui/page/page.tsx'
import { QueryView } from '../../ui/page/query-view.tsx'
import { CreateProject } from './create-project.tsx'
import { ProjectsTable } from './projects-table.tsx'

export function Projects() {
  const [creating, setCreating] = useLinkedDialog()
  const list = useQuery(projectsQuery)
  return (
    <Page
      title="Projects"
      lead={list.data && `${list.data.total} in all`}
      actions={
        <Button variant="primary" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
          New project
        </Button>
      }
    >
      <Panel flush>
        <QueryView query={list} label="projects">
          {({ projects }) => <ProjectsTable projects={projects} />}
        </QueryView>
      </Panel>
      <Dialog open={creating} onClose={() => setCreating(false)} title="New project">
        <CreateProject onCancel={() => setCreating(false)} />
      </Dialog>
    </Page>
  )
}
