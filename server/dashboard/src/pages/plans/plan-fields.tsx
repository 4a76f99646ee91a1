import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { plansQuery } from '../../data/queries.ts'
import { useDraftField } from '../../ui/forms/draft.ts'
import { SelectField, TextField } from '../../ui/forms/field.tsx'

type Plan = ResponseBody<'account.plans'>['plans'][number]

interface PlanFieldProps {
  /** The initial or saved plan. */
  readonly plan: string
  /** The text with the relevant limits. */
  readonly limits: (plan: Plan) => string
}

/** A choice of the plans of the account, with the limits of the chosen one. */
export function PlanField({ plan, limits }: PlanFieldProps) {
  const { data } = useQuery(plansQuery)
  const [created, setCreated] = useState(plan)
  const chosen = useDraftField('plan')?.value ?? created
  const plans = data?.plans ?? []
  // The operator may have removed the plan of a project.
  const names = plans.some(({ name }) => name === plan) ? [] : [plan]
  const current = plans.find(({ name }) => name === chosen)
  return (
    <SelectField
      label="Plan"
      name="plan"
      value={chosen}
      onChange={({ target }) => setCreated(target.value)}
      hint={current === undefined ? undefined : limits(current)}
    >
      {[...names, ...plans.map(({ name }) => name)].map((name) => (
        <option key={name}>{name}</option>
      ))}
    </SelectField>
  )
}

const number = new Intl.NumberFormat('en')
const counted = (count: number, one: string) => `${number.format(count)} ${one}${count === 1 ? '' : 's'}`

/** The limits of a plan for a project. */
export const projectLimits = ({
  memory_mb,
  cpus,
  instances,
  app_gb,
  domains,
  apps,
  databases,
  storage_gb,
}: Plan): string =>
  `${counted(apps, 'app')} of up to ${counted(instances, 'instance')} (${number.format(memory_mb)} MB, ${cpus} CPU), ` +
  `${counted(domains, 'domain')} and ${number.format(app_gb)} GB on the disk; ${counted(databases, 'database')}; ${number.format(storage_gb)} GB of files.`

/** The limits of a plan for a database. */
export const databaseLimits = ({ database_gb }: Plan): string => `Up to ${number.format(database_gb)} GB.`

/** A choice of the configured regions; a text field if any region is allowed. */
export function RegionField() {
  const { data } = useQuery(plansQuery)
  if (data === undefined || data.regions.length === 0) {
    return (
      <TextField
        label="Region"
        name="region"
        placeholder={data?.default_region}
        autoComplete="off"
        hint="Any name, such as eu-1: this server has no list of regions."
      />
    )
  }
  return (
    <SelectField label="Region" name="region" defaultValue={data.default_region} hint="It cannot be changed later.">
      {data.regions.map((region) => (
        <option key={region}>{region}</option>
      ))}
    </SelectField>
  )
}
