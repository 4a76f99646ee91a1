# The gems are Debian's: there is no Gemfile, and RubyGems finds them.
