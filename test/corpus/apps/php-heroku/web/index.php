<?php echo "Hello from Heroku's sample of PHP";
