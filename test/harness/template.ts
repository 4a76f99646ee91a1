/** The migrated database, from which the databases of tests are cloned. */
export const templateName = 'fairlead_template'
