import './base.css';
import './answer.css';
import './question.css';
import './context.css';
import './activity.css';
