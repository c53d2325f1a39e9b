document.documentElement.classList.add('script');
