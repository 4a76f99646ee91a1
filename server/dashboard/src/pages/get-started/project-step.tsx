import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../data/client.ts'
import { Button } from '../../ui/controls/button.tsx'
import { SelectField } from '../../ui/forms/field.tsx'
import { ErrorAlert } from '../../ui/page/states.tsx'
import { Step } from './step.tsx'

interface ProjectStepProps {
  readonly projects: ResponseBody<'projects.list'>['projects']
  readonly projectId: string | undefined
  readonly onChoose: (projectId: string) => void
}

export function ProjectStep({ projects, projectId, onChoose }: ProjectStepProps) {
  return (
    <Step done={projects.length > 0} title="A project">
      {projects.length === 0 ? (
        <CreateFirstProject />
      ) : (
        <SelectField label="Deploy into" value={projectId} onChange={({ target }) => onChoose(target.value)}>
          {projects.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      )}
    </Step>
  )
}

function CreateFirstProject() {
  const queryClient = useQueryClient()
  const create = useMutation({
    mutationFn: () => api.projects.create({ body: { name: 'My project' } }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ['projects'] }),
  })
  return (
    <div className="grid justify-items-start gap-2">
      <Button variant="primary" busy={create.isPending} onClick={() => create.mutate()}>
        Create a project
      </Button>
      {create.error !== null && <ErrorAlert error={create.error} />}
    </div>
  )
}
