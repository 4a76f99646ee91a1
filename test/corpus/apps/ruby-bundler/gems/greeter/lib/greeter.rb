module Greeter
  def self.greet = "Hello from a gem of the bundle, in #{ENV.fetch('RACK_ENV')}"
end
