<?php echo 'About this site: ' . $_SERVER['SCRIPT_NAME'];
